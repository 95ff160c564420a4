#include "preload/collectives/core_sharing.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>

namespace nearfield::collectives {
namespace {

constexpr Nanoseconds look_period = 20'000'000;
constexpr int min_delay_divisor = 20;     // a core counts as shared if the thread waits for it for 1/20 of the time
constexpr int looks_until_unshared = 10;  // looks without such delays until the core counts as unshared

struct LastLook {
  Nanoseconds time = 0, delay = 0;
  int remaining = 0;  // looks for which the core still counts as shared
};

// Returns the total time that this thread was runnable without a core, from /proc/thread-self/schedstat; nothing if the
// kernel does not report it.
std::optional<Nanoseconds> read_scheduling_delay() {
  const int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  char text[128] = {};
  const ssize_t count = read(file, text, sizeof text - 1);
  close(file);
  long long ran = 0, delay = 0;
  if (count <= 0 || std::sscanf(text, "%lld %lld", &ran, &delay) != 2) return std::nullopt;
  return delay;
}

}  // namespace

bool is_core_shared(Nanoseconds now) {
  static thread_local LastLook last;
  if (now - last.time < look_period) return last.remaining > 0;
  const std::optional<Nanoseconds> delay = read_scheduling_delay();
  const bool is_first = last.time == 0;
  if (!delay || (!is_first && (*delay - last.delay) * min_delay_divisor > now - last.time))
    last.remaining = looks_until_unshared;
  else
    last.remaining = std::max(last.remaining - 1, 0);
  last.time = now;
  last.delay = delay.value_or(0);
  return last.remaining > 0;
}

}  // namespace nearfield::collectives

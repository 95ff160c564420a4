#include "preload/collectives/core_sharing.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>

namespace nearfield::collectives {
namespace {

constexpr Nanoseconds check_period = 20'000'000;
constexpr int min_delay_divisor = 20;      // a core counts as shared if the thread waits for it for 1/20 of the time
constexpr int checks_until_unshared = 10;  // looks without such delays until the core counts as unshared

struct LastCheck {
  Nanoseconds last_check_time = 0, total_delay = 0;
  int remaining_shared_checks = 0;  // looks for which the core still counts as shared
};

// Returns the total time that this thread was runnable without a core, from /proc/thread-self/schedstat; nothing if the
// kernel does not report it.
std::optional<Nanoseconds> read_scheduling_delay() {
  const int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  char text[128] = {};
  const ssize_t count = read(file, text, sizeof text - 1);
  close(file);
  long long runtime = 0, total_delay = 0;
  if (count <= 0 || std::sscanf(text, "%lld %lld", &runtime, &total_delay) != 2) return std::nullopt;
  return total_delay;
}

}  // namespace

bool is_core_shared(Nanoseconds now) {
  static thread_local LastCheck last_check;
  if (now - last_check.last_check_time < check_period) return last_check.remaining_shared_checks > 0;
  const std::optional<Nanoseconds> total_delay = read_scheduling_delay();
  const bool is_first = last_check.last_check_time == 0;
  if (!total_delay ||
      (!is_first && (*total_delay - last_check.total_delay) * min_delay_divisor > now - last_check.last_check_time))
    last_check.remaining_shared_checks = checks_until_unshared;
  else
    last_check.remaining_shared_checks = std::max(last_check.remaining_shared_checks - 1, 0);
  last_check.last_check_time = now;
  last_check.total_delay = total_delay.value_or(0);
  return last_check.remaining_shared_checks > 0;
}

}  // namespace nearfield::collectives

#include "preload/collectives/core_sharing.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <optional>

namespace nearfield::collectives {
namespace {

constexpr Nanoseconds look_period = 20'000'000;
constexpr int delayed_part = 20;  // a core is shared if a thread waits for it during this part of the time
constexpr int calm_looks = 10;    // consecutive looks without delays after which the core counts as unshared

struct Looks {
  Nanoseconds last = 0;  // the time of the last look
  Nanoseconds delay = 0;
  int delayed = 0;  // looks during which the core still counts as shared
};

// Returns how long this thread has waited for a core since it was started.
std::optional<Nanoseconds> read_delay() {
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
  static thread_local Looks looks;
  if (now - looks.last < look_period) return looks.delayed > 0;
  const std::optional<Nanoseconds> delay = read_delay();
  if (!delay) return true;
  const bool is_delayed = looks.last && (*delay - looks.delay) * delayed_part > now - looks.last;
  looks.delayed = is_delayed ? calm_looks : looks.delayed > 0 ? looks.delayed - 1 : 0;
  looks.last = now;
  looks.delay = *delay;
  return looks.delayed > 0;
}

}  // namespace nearfield::collectives

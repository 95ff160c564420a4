// Scheduling delays: how long the calling thread was runnable without a core, from /proc/thread-self/schedstat.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace nearfield::observe {

class Delays {
 public:
  // Returns whether the kernel counts delays, and starts counting.
  bool begin() { return read_count(); }

  // Returns the delays in the last `since_ns`. Short intervals are not queried, because that takes some microseconds;
  // their delays count towards the next long interval.
  std::uint64_t within(std::uint64_t since_ns) {
    constexpr std::uint64_t short_ns = 100'000;
    if (since_ns < short_ns) return 0;
    const std::uint64_t before = counted_ns_;
    return read_count() ? std::min(counted_ns_ - before, since_ns) : 0;
  }

 private:
  // The file is opened each time, because programs may close descriptors that they do not know.
  bool read_count() {
    const int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    char text[96] = "";
    const bool is_read = read(file, text, sizeof text - 1) > 0;
    close(file);
    unsigned long long ran_ns = 0, delayed_ns = 0, times = 0;
    if (!is_read || std::sscanf(text, "%llu %llu %llu", &ran_ns, &delayed_ns, &times) < 3) return false;
    if (times == 0) return false;  // a kernel that does not count writes zeros
    counted_ns_ = delayed_ns;
    return true;
  }

  std::uint64_t counted_ns_ = 0;
};

}  // namespace nearfield::observe

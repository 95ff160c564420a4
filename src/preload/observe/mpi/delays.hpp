// Scheduling delays: the time in which the calling thread was runnable without a core, from
// /proc/thread-self/schedstat.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace nearfield::observe {

class SchedulingDelays {
 public:
  // Starts counting. Returns false if the kernel does not report delays.
  bool begin_counting() { return read_total_delay(); }

  // Returns the total delay, in ns, in the last `since_ns` nanoseconds. For short intervals returns 0 without reading
  // the kernel's counter, which takes some microseconds; their delays are added to the next long interval.
  std::uint64_t delay_within(std::uint64_t since_ns) {
    constexpr std::uint64_t short_ns = 100'000;
    if (since_ns < short_ns) return 0;
    const std::uint64_t before = counted_ns_;
    return read_total_delay() ? std::min(counted_ns_ - before, since_ns) : 0;
  }

 private:
  // Opens the file each time, because programs may close descriptors that they have not opened.
  bool read_total_delay() {
    const int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    char text[96] = "";
    const bool is_read = read(file, text, sizeof text - 1) > 0;
    close(file);
    unsigned long long ran_ns = 0, delayed_ns = 0, times = 0;
    if (!is_read || std::sscanf(text, "%llu %llu %llu", &ran_ns, &delayed_ns, &times) < 3) return false;
    if (times == 0) return false;  // a kernel that does not count delays reports zeros
    counted_ns_ = delayed_ns;
    return true;
  }

  std::uint64_t counted_ns_ = 0;
};

}  // namespace nearfield::observe

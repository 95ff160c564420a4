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

  // Returns the total delay, in ns, in the last `interval_ns` nanoseconds. For short intervals returns 0 without
  // reading the kernel's counter, which takes some microseconds; their delays are added to the next long interval.
  std::uint64_t delay_within(std::uint64_t interval_ns) {
    constexpr std::uint64_t min_interval_ns = 100'000;
    if (interval_ns < min_interval_ns) return 0;
    const std::uint64_t previous_total_ns = last_total_delay_ns_;
    return read_total_delay() ? std::min(last_total_delay_ns_ - previous_total_ns, interval_ns) : 0;
  }

 private:
  // Opens the file each time, because programs may close descriptors that they have not opened.
  bool read_total_delay() {
    const int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    char text[96] = "";
    const bool is_read = read(file, text, sizeof text - 1) > 0;
    close(file);
    unsigned long long runtime_ns = 0, delayed_ns = 0, num_timeslices = 0;
    if (!is_read || std::sscanf(text, "%llu %llu %llu", &runtime_ns, &delayed_ns, &num_timeslices) < 3) return false;
    if (num_timeslices == 0) return false;  // a kernel that does not count delays reports zeros
    last_total_delay_ns_ = delayed_ns;
    return true;
  }

  std::uint64_t last_total_delay_ns_ = 0;
};

}  // namespace nearfield::observe

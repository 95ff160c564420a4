// The clock of the measuring engine: the CPU's cycle counter (rdtscp, cntvct_el0), if user code may read it. A read is
// ordered: all earlier instructions have completed, and no later instruction has begun. The counter must have a
// constant rate that is the same on all cores of a node (`nearfield doctor` checks this). Readings are not comparable
// between nodes.
#pragma once

#include <cstdint>
#include <ctime>

namespace nearfield {

using Ticks = std::uint64_t;

inline Ticks now() {
#if defined(__x86_64__)
  std::uint32_t low, high;  // <immintrin.h> has an intrinsic for it, but takes longer to compile than most files
  asm volatile("rdtscp; lfence" : "=a"(low), "=d"(high)::"ecx", "memory");
  return Ticks{high} << 32 | low;
#elif defined(__aarch64__)
  Ticks ticks;
  asm volatile("isb; mrs %0, cntvct_el0; isb" : "=r"(ticks)::"memory");
  return ticks;
#else
#error "nearfield's engine knows the clocks of x86-64 and AArch64; add this architecture's here"
#endif
}

inline void cpu_pause() {
#if defined(__x86_64__)
  asm volatile("pause");
#else
  asm volatile("yield");
#endif
}

/// Returns the overhead of reading the clock: the shortest time in ticks between two successive reads.
inline Ticks min_clock_overhead() {
  Ticks shortest = ~Ticks{0};
  for (int i = 0; i < 1000; ++i) {
    const Ticks first = now(), elapsed = now() - first;
    if (elapsed < shortest) shortest = elapsed;
  }
  return shortest;
}

/// Returns the ticks per nanosecond, measured against CLOCK_MONOTONIC_RAW for `seconds` seconds.
inline double measure_ticks_per_ns(double seconds) {
  const auto wall_ns = [] {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
  };
  const double start_wall_ns = wall_ns();
  const Ticks start_ticks = now();
  while (wall_ns() - start_wall_ns < seconds * 1e9) cpu_pause();
  const Ticks end_ticks = now();
  return static_cast<double>(end_ticks - start_ticks) / (wall_ns() - start_wall_ns);
}

}  // namespace nearfield

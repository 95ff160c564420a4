// Detects interference on this core by timing a fixed loop of copies inside the L1 cache, which no other rank of the
// job can slow down. If another program (for example a virtual machine on the sibling hardware thread) uses the same
// physical core, the loop takes about 1.5 times as long. Neither the clock frequency nor the time of a chain of
// dependent operations would reveal such interference.
#pragma once

#include <array>
#include <cstddef>

namespace nearfield::probe {

class CpuInterference {
 public:
  /// Runs the loop (about 5 us on an idle core) and returns its duration in ticks. Evicts about 8 KiB from the L1
  /// cache.
  double measure_loop_ticks();
  /// Returns the ratio of a duration of the loop to the shortest duration so far.
  double slowdown(double loop_ticks) const { return loop_ticks / min_loop_ticks_; }

  /// A larger slowdown means interference. Without interference, the durations differ by a few percent.
  static constexpr double max_undisturbed_slowdown = 1.15;

 private:
  alignas(64) std::array<std::byte, 4096> from_{}, to_{};
  double min_loop_ticks_ = 1e300;
};

}  // namespace nearfield::probe

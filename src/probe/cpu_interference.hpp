// Detects interference on this core by timing a fixed work loop that no other rank of the job can slow down: copies
// inside the L1 cache. If another program (for example a guest on the sibling hardware thread) uses the same physical
// core, the loop takes about 1.5 times as long. The clock frequency or a chain of dependent operations would not show
// such interference.
#pragma once

#include <array>
#include <cstddef>

namespace nearfield::probe {

class CpuInterference {
 public:
  /// Runs the work loop (about 5 us on an idle core) and returns its duration in ticks. Evicts about 8 KiB from the L1
  /// cache.
  double read();
  /// Returns the ratio of a reading to the smallest reading so far.
  double slowdown(double reading) const { return reading / best_; }

  /// A larger slowdown means interference. Readings without interference differ by a few percent.
  static constexpr double max_slowdown = 1.15;

 private:
  alignas(64) std::array<std::byte, 4096> from_{}, to_{};
  double best_ = 1e300;
};

}  // namespace nearfield::probe

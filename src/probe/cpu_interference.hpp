// Detects interference on this core, by the speed of a fixed piece of work that no other rank can slow down: copies
// inside the L1 cache. When something else uses the same physical core (for example another guest on the sibling
// hardware thread) they take half as long again, while the clock frequency or a chain of dependent operations would
// show nothing.
#pragma once

#include <array>
#include <cstddef>

namespace nearfield::probe {

class CpuInterference {
 public:
  /// Returns the ticks that the work takes now, about 5 us. Displaces 8 KiB of the L1 cache.
  double read();
  /// Returns the ratio of `reading` to the smallest reading so far.
  double slowdown(double reading) const { return reading / best_; }

  /// A greater slowdown means interference. Undisturbed readings lie within a few percent of one another.
  static constexpr double max_slowdown = 1.15;

 private:
  alignas(64) std::array<std::byte, 4096> from_{}, to_{};
  double best_ = 1e300;
};

}  // namespace nearfield::probe

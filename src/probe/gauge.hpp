// Measures how fast this core is right now, by a fixed piece of work that no other rank can slow down: copies inside
// the first-level cache. When something else uses the same physical core (the hardware thread beside ours belongs to
// another guest, say) they take half as long again, while a clock frequency or a chain of dependent operations shows
// nothing.
#pragma once

#include <array>
#include <cstddef>

namespace nearfield::probe {

class Gauge {
 public:
  /// Returns the ticks that the work takes now, about 5 us. Disturbs 8 KiB of the first-level cache.
  double read();
  /// Returns `reading` over the smallest reading so far.
  double slowdown(double reading) const { return reading / best_; }

  /// Slower than this: something else uses the core. Undisturbed readings lie within a few percent of one another.
  static constexpr double limit = 1.15;

 private:
  alignas(64) std::array<std::byte, 4096> from_{}, to_{};
  double best_ = 1e300;
};

}  // namespace nearfield::probe

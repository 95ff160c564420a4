#include "probe/cpu_interference.hpp"

#include <algorithm>
#include <cstring>

#include "base/clock.hpp"

namespace nearfield::probe {

double CpuInterference::measure_loop_ticks() {
  constexpr int num_tries = 3, num_copies = 32;
  double shortest_ticks = 1e300;
  for (int i = 0; i < num_tries; ++i) {
    const Ticks start = now();
    for (int copy = 0; copy < num_copies; ++copy) {
      std::memcpy(to_.data(), from_.data(), from_.size());
      asm volatile("" ::"r"(to_.data()) : "memory");
    }
    shortest_ticks = std::min(shortest_ticks, static_cast<double>(now() - start));
  }
  min_loop_ticks_ = std::min(min_loop_ticks_, shortest_ticks);
  return shortest_ticks;
}

}  // namespace nearfield::probe

#include "probe/cpu_interference.hpp"

#include <algorithm>
#include <cstring>

#include "base/clock.hpp"

namespace nearfield::probe {

double CpuInterference::read() {
  constexpr int tries = 3, copies = 32;
  double fastest = 1e300;
  for (int i = 0; i < tries; ++i) {
    const Ticks start = now();
    for (int copy = 0; copy < copies; ++copy) {
      std::memcpy(to_.data(), from_.data(), from_.size());
      asm volatile("" ::"r"(to_.data()) : "memory");
    }
    fastest = std::min(fastest, static_cast<double>(now() - start));
  }
  best_ = std::min(best_, fastest);
  return fastest;
}

}  // namespace nearfield::probe

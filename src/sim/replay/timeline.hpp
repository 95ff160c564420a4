// When a rank was in its calls of MPI: the time in each call, by equal parts of the run, at the first policy and memory
// speed. However long the run is there are at most `most_parts`; they become wider as it goes on.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "sim/clock.hpp"

namespace nearfield::sim::replay {

template <class Call>
class Timeline {
 public:
  static constexpr std::size_t most_parts = 512;

  void add(const Call& call, Ps begin, Ps end) {
    while (end > width_ * static_cast<Ps>(most_parts)) widen();
    auto& parts = parts_[call];
    while (begin < end) {
      const auto part = std::min(static_cast<std::size_t>(begin / width_), most_parts - 1);
      const Ps until = part + 1 == most_parts ? end : std::min(end, width_ * static_cast<Ps>(part + 1));
      if (parts.size() <= part) parts.resize(part + 1);
      parts[part] += until - begin;
      if (until <= begin) break;  // rounding
      begin = until;
    }
  }
  // Makes parts at least so wide, which is the width of another rank's.
  void widen_to(Ps width) {
    while (width_ < width) widen();
  }
  Ps width() const { return width_; }
  // Returns the time in each part; parts at the end without any are left out.
  std::vector<Ps> parts(const Call& call) const {
    const auto found = parts_.find(call);
    return found == parts_.end() ? std::vector<Ps>() : found->second;
  }

 private:
  void widen() {
    width_ *= 2;
    for (auto& [call, parts] : parts_) {
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const Ps time = parts[i];
        parts[i] = 0;
        parts[i / 2] += time;
      }
      parts.resize((parts.size() + 1) / 2);
    }
  }

  Ps width_ = 1e3;
  std::map<Call, std::vector<Ps>> parts_;
};

}  // namespace nearfield::sim::replay

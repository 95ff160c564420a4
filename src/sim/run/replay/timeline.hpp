// A histogram over time: the time that a rank spent in each MPI call, for each of equal parts of the run, at the first
// policy and memory speed. There are at most `max_parts` parts; their width doubles when the run exceeds them.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "sim/engine/config_clock.hpp"

namespace nearfield::sim::replay {

template <class Call>
class Timeline {
 public:
  static constexpr std::size_t max_parts = 512;

  void add_interval(const Call& call, Ps begin, Ps end) {
    while (end > width_ * static_cast<Ps>(max_parts)) double_part_width();
    auto& parts = parts_[call];
    while (begin < end) {
      const auto part = std::min(static_cast<std::size_t>(begin / width_), max_parts - 1);
      const Ps until = part + 1 == max_parts ? end : std::min(end, width_ * static_cast<Ps>(part + 1));
      if (parts.size() <= part) parts.resize(part + 1);
      parts[part] += until - begin;
      if (until <= begin) break;  // rounding
      begin = until;
    }
  }
  // Widens the parts to at least `width`, the width of another rank's parts.
  void widen_to(Ps width) {
    while (width_ < width) double_part_width();
  }
  Ps part_width() const { return width_; }
  // Returns the time in each part, without trailing empty parts.
  std::vector<Ps> time_per_part(const Call& call) const {
    const auto found = parts_.find(call);
    return found == parts_.end() ? std::vector<Ps>() : found->second;
  }

 private:
  void double_part_width() {
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

// A histogram over time: the time that a rank spent in each MPI call, for bins of equal width, under the first policy
// at the first memory speed. There are at most `max_bins` bins; their width doubles when the run exceeds them.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "sim/engine/config_clock.hpp"

namespace nearfield::sim::replay {

template <class Call>
class Timeline {
 public:
  static constexpr std::size_t max_bins = 512;

  void add_interval(const Call& call, Ps begin, Ps end) {
    while (end > bin_width_ * static_cast<Ps>(max_bins)) double_bin_width();
    auto& bins = times_by_call_[call];
    while (begin < end) {
      const auto bin = std::min(static_cast<std::size_t>(begin / bin_width_), max_bins - 1);
      const Ps bin_end = bin + 1 == max_bins ? end : std::min(end, bin_width_ * static_cast<Ps>(bin + 1));
      if (bins.size() <= bin) bins.resize(bin + 1);
      bins[bin] += bin_end - begin;
      if (bin_end <= begin) break;  // rounding
      begin = bin_end;
    }
  }
  // Widens the bins to at least `width`, the width of another rank's bins.
  void widen_to(Ps width) {
    while (bin_width_ < width) double_bin_width();
  }
  Ps bin_width() const { return bin_width_; }
  // Returns the time in each bin, without trailing empty bins.
  std::vector<Ps> time_per_bin(const Call& call) const {
    const auto entry = times_by_call_.find(call);
    return entry == times_by_call_.end() ? std::vector<Ps>() : entry->second;
  }

 private:
  void double_bin_width() {
    bin_width_ *= 2;
    for (auto& [call, bins] : times_by_call_) {
      for (std::size_t i = 0; i < bins.size(); ++i) {
        const Ps time = bins[i];
        bins[i] = 0;
        bins[i / 2] += time;
      }
      bins.resize((bins.size() + 1) / 2);
    }
  }

  Ps bin_width_ = 1e3;
  std::map<Call, std::vector<Ps>> times_by_call_;
};

}  // namespace nearfield::sim::replay

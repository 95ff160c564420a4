// The place of two ranks' cores. The hypervisor of a virtual machine moves its CPUs between cores of the host: times then
// belong to the core-to-core latency beside them, and only those of one place may be compared or averaged.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>

namespace nearfield::probe {

/// The largest ratio of two latencies of one place.
constexpr double max_place_ratio = 1.25;

/// Returns the latency of a visit from those before and after it; NaN if the cores moved meanwhile, and 0 if there is no
/// latency.
inline double latency_of_visit(double before, double after) {
  const auto [low, high] = std::minmax(before, after);
  return high > max_place_ratio * low ? std::nan("") : low;
}

/// Counts visits by latency, and finds the place where the cores are most of the time.
class Places {
 public:
  void add(double latency) {
    if (!(latency > 0)) return;
    const int bin = bin_of(latency);
    ++visits_[bin];
    if (visits_.size() == 1) usual_ = bin;
    for (int near = bin - 1; near <= bin + 1; ++near)
      if (visits_about(near) > visits_about(usual_)) usual_ = near;
  }

  /// Returns whether the cores were at the usual place; true if no latency was measured.
  bool is_usual(double latency) const {
    return visits_.empty() || (latency > 0 && std::abs(bin_of(latency) - usual_) <= 1);
  }

 private:
  static int bin_of(double latency) {
    return static_cast<int>(std::lround(bins_per_place * std::log(latency) / std::log(max_place_ratio)));
  }

  int visits_about(int bin) const {
    int sum = 0;
    for (int near = bin - 1; near <= bin + 1; ++near)
      if (const auto found = visits_.find(near); found != visits_.end()) sum += found->second;
    return sum;
  }

  static constexpr int bins_per_place = 3;
  std::map<int, int> visits_;  // by the logarithm of the latency
  int usual_ = 0;              // the middle one of the three bins with most visits
};

}  // namespace nearfield::probe

// Groups measurements by the core-to-core latency between two ranks. The hypervisor of a virtual machine migrates
// virtual CPUs between cores of the host, which changes that latency and all message times with it. Only times at one
// latency (a `place`) may be compared or averaged.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>

namespace nearfield::probe {

/// The largest ratio of two core-to-core latencies that count as the same place.
constexpr double max_place_ratio = 1.25;

/// Returns the core-to-core latency of a visit: the smaller of those measured before and after it. Returns NaN if the
/// two differ by more than max_place_ratio (the cores have moved), and 0 if no latency was measured.
inline double latency_of_visit(double before, double after) {
  const auto [low, high] = std::minmax(before, after);
  return high > max_place_ratio * low ? std::nan("") : low;
}

/// Counts visits by core-to-core latency, and finds the latency that most visits have.
class LatencyHistogram {
 public:
  void add_visit(double latency) {
    if (!(latency > 0)) return;
    const int bin = bin_of(latency);
    ++visits_[bin];
    if (visits_.size() == 1) usual_ = bin;
    for (int near = bin - 1; near <= bin + 1; ++near)
      if (visits_near_bin(near) > visits_near_bin(usual_)) usual_ = near;
  }

  /// Returns whether `latency` is that of most visits; true if no latency was measured.
  bool is_usual_latency(double latency) const {
    return visits_.empty() || (latency > 0 && std::abs(bin_of(latency) - usual_) <= 1);
  }

 private:
  static int bin_of(double latency) {
    return static_cast<int>(std::lround(bins_per_place * std::log(latency) / std::log(max_place_ratio)));
  }

  int visits_near_bin(int bin) const {
    int sum = 0;
    for (int near = bin - 1; near <= bin + 1; ++near)
      if (const auto found = visits_.find(near); found != visits_.end()) sum += found->second;
    return sum;
  }

  static constexpr int bins_per_place = 3;
  std::map<int, int> visits_;  // number of visits by bin_of(latency)
  int usual_ = 0;              // middle of the three adjacent bins with most visits
};

}  // namespace nearfield::probe

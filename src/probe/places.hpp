// Groups measurements by the core-to-core latency between two ranks. The hypervisor of a virtual machine migrates
// virtual CPUs between cores of the host, which changes this latency and therefore all message times. Measurements at
// about the same latency belong to one `place`; only these may be compared or averaged.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>

namespace nearfield::probe {

/// The largest ratio of two core-to-core latencies that belong to the same place.
constexpr double max_place_ratio = 1.25;

/// Returns the core-to-core latency of a visit: the minimum of the latencies measured `latency_before` and
/// `latency_after` it. Returns NaN if their ratio exceeds max_place_ratio, because a CPU was migrated, and 0 if no
/// latency was measured.
inline double latency_of_visit(double latency_before, double latency_after) {
  const auto [low, high] = std::minmax(latency_before, latency_after);
  return high > max_place_ratio * low ? std::nan("") : low;
}

/// Counts visits by core-to-core latency, and finds the most frequent latency.
class LatencyHistogram {
 public:
  void add_visit(double latency) {
    if (!(latency > 0)) return;
    const int bin = bin_of(latency);
    ++num_visits_by_bin_[bin];
    if (num_visits_by_bin_.size() == 1) dominant_bin_ = bin;
    for (int neighbor_bin = bin - 1; neighbor_bin <= bin + 1; ++neighbor_bin)
      if (num_visits_near_bin(neighbor_bin) > num_visits_near_bin(dominant_bin_)) dominant_bin_ = neighbor_bin;
  }

  /// Returns whether `latency` is near the most frequent latency; true if no latency was measured.
  bool is_dominant_latency(double latency) const {
    return num_visits_by_bin_.empty() || (latency > 0 && std::abs(bin_of(latency) - dominant_bin_) <= 1);
  }

 private:
  static int bin_of(double latency) {
    return static_cast<int>(std::lround(bins_per_place * std::log(latency) / std::log(max_place_ratio)));
  }

  int num_visits_near_bin(int bin) const {
    int sum = 0;
    for (int neighbor_bin = bin - 1; neighbor_bin <= bin + 1; ++neighbor_bin)
      if (const auto visits_of_bin = num_visits_by_bin_.find(neighbor_bin); visits_of_bin != num_visits_by_bin_.end())
        sum += visits_of_bin->second;
    return sum;
  }

  static constexpr int bins_per_place = 3;
  std::map<int, int> num_visits_by_bin_;  // number of visits by bin_of(latency)
  int dominant_bin_ = 0;                  // middle of the three adjacent bins with most visits
};

}  // namespace nearfield::probe

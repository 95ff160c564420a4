#include "sim/run/results.hpp"

#include <numeric>

namespace nearfield::sim {
namespace {

double mean(const std::vector<double>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
}

std::vector<double> times_in_ns(const std::vector<ConfigClock>& times, int variant, int speed) {
  std::vector<double> ns;
  for (const ConfigClock& time : times) ns.push_back(time[variant][speed] / 1e3);
  return ns;
}

}  // namespace

void Results::add_time(const std::string& metric, const std::string& side, const ConfigClock& duration,
                       double divisor) {
  for (int v = 0; v < duration.num_variants(); ++v)
    for (int speed = 0; speed < num_speeds_; ++speed) {
      const double ns = duration[v][speed] / 1e3 / divisor;
      entries.push_back({metric, "ns", side, v, speed, ns, ns, ns});
    }
}

void Results::add_times(const std::vector<ConfigClock>& repetitions) {
  const int n = static_cast<int>(repetitions.size());
  for (int v = 0; n > 0 && v < repetitions.front().num_variants(); ++v)
    for (int speed = 0; speed < num_speeds_; ++speed) {
      const auto ns = times_in_ns(repetitions, v, speed);
      const Estimate middle = median_estimate(ns);
      entries.push_back({"time", "ns", "", v, speed, middle.value, middle.low, middle.high, n});
      entries.push_back({"mean_time", "ns", "", v, speed, mean(ns), {}, {}, n});
      entries.push_back({"first_time", "ns", "", v, speed, ns.front(), {}, {}, n});
    }
}

void Results::add_mean(const std::string& metric, const std::string& unit, int variant, int speed,
                       const std::vector<double>& repetitions) {
  const double value = mean(repetitions);
  const auto bound = repetitions.size() == 1 ? std::optional(value) : std::nullopt;
  entries.push_back({metric, unit, "", variant, speed, value, bound, bound, static_cast<int>(repetitions.size())});
}

void Results::add_number(const std::string& metric, const std::string& unit, const std::string& side, double value) {
  entries.push_back({metric, unit, side, 0, -1, value, value, value});
}

void Results::add_missing(const std::string& metric, const std::string& unit, const std::string& side,
                          const std::string& reason) {
  entries.push_back({metric, unit, side, 0, -1, {}, {}, {}, 0, reason});
}

}  // namespace nearfield::sim

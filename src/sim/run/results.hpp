// The results of a simulated case: times, one per policy and memory speed, and numbers that do not depend on the memory
// speed, one per policy.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/statistics.hpp"
#include "sim/engine/config_clock.hpp"

namespace nearfield::sim {

// One number. `side`: sender, receiver, or empty for the operation as a whole. `variant` and `speed` are indices of the
// job's policies and memory speeds; speed -1: the number is the same at all speeds.
struct Result {
  std::string metric;
  std::string unit;
  std::string side;
  int variant = 0;
  int speed = -1;
  std::optional<double> value = {};
  std::optional<double> low = {}, high = {};  // interval over the repetitions (base/statistics.hpp)
  int n = 1;
  std::string reason = "";  // why there is no value
};

class Results {
 public:
  // `num_speeds`: the number of memory speeds of the job; clocks always have the maximum number.
  explicit Results(std::size_t num_speeds) : num_speeds_(static_cast<int>(num_speeds)) {}

  // Adds a metric that is a duration divided by `divisor`.
  void add_time(const std::string& metric, const std::string& side, const ConfigClock& duration, double divisor = 1);
  // Adds the median, the mean and the first of the repetitions' times.
  void add_times(const std::vector<ConfigClock>& repetitions);
  // Adds the mean over repetitions; `speed` is -1 if the number is the same at all speeds.
  void add_mean(const std::string& metric, const std::string& unit, int variant, int speed,
                const std::vector<double>& repetitions);
  void add_number(const std::string& metric, const std::string& unit, const std::string& side, double value);
  void add_missing(const std::string& metric, const std::string& unit, const std::string& side,
                   const std::string& reason);

  std::vector<Result> entries;

 private:
  int num_speeds_;
};

}  // namespace nearfield::sim

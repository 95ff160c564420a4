// The results of simulating a case: numbers that do not depend on the speed of memory, one for every policy, and times,
// one for every policy and every speed of memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/statistics.hpp"
#include "sim/clock.hpp"

namespace nearfield::sim {

// One number. `side`: sender, receiver, or empty for the operation as a whole. `variant` and `speed` count the policies
// and the memory speeds of the job; -1: the number is the same at all speeds.
struct Result {
  std::string metric;
  std::string unit;
  std::string side;
  int variant = 0;
  int speed = -1;
  std::optional<double> value = {};
  std::optional<double> low = {}, high = {};  // of the repetitions
  int n = 1;
  std::string reason = "";  // why there is no value
};

class Results {
 public:
  // `speeds_of_job`: how many memory speeds the job has; clocks always carry the most that there may be.
  explicit Results(std::size_t speeds_of_job) : speeds_(static_cast<int>(speeds_of_job)) {}

  // Adds a duration that is `parts` times the metric.
  void add_time(const std::string& metric, const std::string& side, const Clock& duration, double parts = 1);
  // Adds the median of repetitions, their mean, and the first one.
  void add_times(const std::vector<Clock>& repetitions);
  // Adds the mean over repetitions; `speed` is -1 if the number is the same at all speeds.
  void add_mean(const std::string& metric, const std::string& unit, int variant, int speed,
                const std::vector<double>& repetitions);
  void add_number(const std::string& metric, const std::string& unit, const std::string& side, double value);
  void add_missing(const std::string& metric, const std::string& unit, const std::string& side,
                   const std::string& reason);

  std::vector<Result> all;

 private:
  int speeds_;
};

}  // namespace nearfield::sim

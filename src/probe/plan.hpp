// The engine's plan: a text file of `key = value` lines, which every rank reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nearfield::probe {

/// The host and PU to which a rank must bind.
struct Placement {
  std::string host;  ///< empty: any
  int cpu = -1;      ///< PU os index; -1: leave unbound
};

struct ScenarioRequest {
  std::string name;
  double budget_s = 1.0;
};

/// Restricts a scenario to the cases whose parameter has one of these values.
struct Only {
  std::string scenario, parameter;
  std::vector<std::string> values;
};

struct Plan {
  std::string output;        ///< rank 0 appends one JSON object a line
  std::string stop_file;     ///< when it exists, complete the current case and end
  std::string command_fifo;  ///< serve commands (remote_control.hpp) that rank r reads from the FIFO `<command_fifo>.r`
  std::string tier = "quick";
  double tolerance = 0.02;       ///< a case is done when its interval is within this share of its median
  std::int64_t min_samples = 7;  ///< minimum repetitions of a case, even beyond the budget
  std::int64_t line_bytes = 64;
  std::vector<std::int64_t> cache_bytes;  ///< capacities of L1, L2, ... of the cores used
  std::vector<std::int64_t> sizes;        ///< message sizes instead of the tier's
  std::vector<Placement> ranks;           ///< one per rank
  std::vector<ScenarioRequest> scenarios;
  std::vector<Only> only;       ///< only cases that satisfy all of these are measured
  double time_limit_s = 0;      ///< for the whole measurement; 0: no limit
  bool oversubscribed = false;  ///< more ranks than cores: yield instead of spinning; times are meaningless
  bool corrupt = false;         ///< damages received data, to test the sanity checks

  std::int64_t llc_bytes() const { return cache_bytes.back(); }
};

/// Returns the plan. Throws Failure("plan") with the file, the line and the nearest valid key.
Plan read_plan(const std::string& path);

}  // namespace nearfield::probe

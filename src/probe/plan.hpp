// The plan of a launch of the engine: a text file of `key = value` lines, which every rank reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nearfield::probe {

/// The host and PU to which a rank must bind.
struct Placement {
  std::string host;  ///< empty: any host
  int cpu = -1;      ///< OS index of the PU; -1: not bound
};

struct ScenarioRequest {
  std::string name;
  double budget_s = 1.0;
};

/// Restricts a scenario to the cases whose `parameter` has one of `values`.
struct CaseFilter {
  std::string scenario, parameter;
  std::vector<std::string> values;
};

struct Plan {
  std::string output;        ///< path of the file to which rank 0 appends JSON Lines
  std::string stop_file;     ///< path; once this file exists, the engine completes the current visit and ends
  std::string command_fifo;  ///< rank r serves commands (remote_control.hpp) from the FIFO `<command_fifo>.r`
  std::string tier = "quick";
  double tolerance = 0.02;       ///< a case is precise if the confidence interval of its median is within this share
  std::int64_t min_samples = 7;  ///< minimum repetitions of a case, even beyond the budget
  std::int64_t cache_line_bytes = 64;
  std::vector<std::int64_t> cache_bytes;     ///< capacities of the cache levels of the used cores, L1 first
  std::vector<std::int64_t> sizes;           ///< message sizes that replace those of the tier
  std::vector<Placement> placement_by_rank;  ///< by rank
  std::vector<ScenarioRequest> scenarios;
  std::vector<CaseFilter> filters;  ///< cases are measured if they satisfy all filters
  double time_limit_s = 0;          ///< for the whole measurement; 0: no limit
  bool is_oversubscribed =
      false;  ///< more ranks than cores: ranks yield instead of spinning, and times are meaningless
  bool corrupts_received_data = false;  ///< damages received data, to test the sanity checks

  std::int64_t llc_bytes() const { return cache_bytes.back(); }
};

/// Reads a plan file. Throws Failure("plan") with the file and the line; for an unknown key, also with the nearest
/// valid key.
Plan read_plan(const std::string& path);

}  // namespace nearfield::probe

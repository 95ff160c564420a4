// The engine's plan: a text file of `key = value` lines, which every rank reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nearfield::probe {

/// The place where a rank must run.
struct Placement {
  std::string host;  ///< empty: any
  int cpu = -1;      ///< PU os index; -1: leave unbound
};

struct ScenarioRequest {
  std::string name;
  double budget_s = 1.0;
};

/// Of a scenario, only the cases whose parameter has one of these values.
struct Only {
  std::string scenario, parameter;
  std::vector<std::string> values;
};

struct Plan {
  std::string output;     ///< rank 0 appends one JSON object a line
  std::string stop_file;  ///< when it exists, finish what is under way and end
  std::string turns;      ///< take turns with another job (turns.hpp): rank r is told when by the FIFO `<turns>.r`
  std::string tier = "quick";
  double tolerance = 0.02;       ///< a case is done when its interval is within this share of its median
  std::int64_t min_samples = 7;  ///< repetitions a case gets at least, budget or not
  std::int64_t line_bytes = 64;
  std::vector<std::int64_t> cache_bytes;  ///< capacity of L1, L2, ... of the cores used, nearest first
  std::vector<std::int64_t> sizes;        ///< message sizes instead of the tier's
  std::vector<Placement> ranks;           ///< one per rank
  std::vector<ScenarioRequest> scenarios;
  std::vector<Only> only;       ///< cases that satisfy all of these are measured
  double time_limit_s = 0;      ///< for all measuring together; 0: no limit
  bool oversubscribed = false;  ///< more ranks than cores: yield instead of spinning, times mean nothing
  bool corrupt = false;         ///< damage what arrived, to test that sanity checks notice

  std::int64_t llc_bytes() const { return cache_bytes.back(); }
};

/// Returns the plan. Throws Failure("plan") that names file, line and the nearest valid key.
Plan read_plan(const std::string& path);

}  // namespace nearfield::probe

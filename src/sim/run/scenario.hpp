// Simulates a scenario as a program over Cluster and Rank. Each file in scenarios/ exports one ScenarioSpec; the build
// finds the files. src/scenario/ declares the scenarios that are also measured. Every case runs on a new simulated
// machine with cold caches, so cases may run in any order and concurrently, and results are reproducible.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "scenario/scenario.hpp"
#include "scenario/size_ladder.hpp"
#include "sim/run/cluster.hpp"
#include "sim/run/results.hpp"

namespace nearfield {
struct Machine;
}

namespace nearfield::sim {

// The placement of a pair of ranks. Between nodes: core 0 of node 0 and core 0 of node `peer`. Otherwise: the cores
// `own` and `peer` of one node.
struct PairPlacement {
  bool between_nodes = false;
  int sender_core = 0;  // core of the sender, inside a node
  int peer = 1;
};

// The settings of a simulation apart from the case's parameters.
struct SimulationSettings {
  std::vector<std::string> policies;  // of the NICs, as many as ScenarioSpec::num_policies; empty: the machine's own
  std::vector<double> memory_slowdown{1};  // 1 to `num_memory_speeds` factors
  std::optional<int> repetitions = {};     // of a collective or an application; nullopt: the scenario's default
  bool has_memory_effects = true;          // see ClusterOptions
};

// One case to simulate.
struct SimulationJob {
  const Machine& machine;
  PairPlacement place;
  const Parameters& parameters;
  SimulationSettings settings = {};
  std::function<void()> progress_callback = {};  // see ClusterOptions

  // Returns options for one node with one rank, according to `settings`. Throws std::invalid_argument if the settings
  // are invalid.
  ClusterOptions options() const;
};

// The cases that the user selects.
struct CaseSelection {
  SizeChoice sizes;
  std::vector<int> nodes;  // values of the parameter `nodes`, if the scenario has it; empty: each scenario's defaults
};

struct ScenarioSpec {
  const ScenarioInfo& info;
  // Returns the reason why the scenario cannot run on this machine at this placement; empty if it can.
  std::string (*unsupported_reason)(const Machine& machine, const PairPlacement& place);
  std::vector<Parameters> (*cases)(const Machine& machine, const PairPlacement& place, const CaseSelection& choice);
  std::vector<Result> (*run)(const SimulationJob& job);
  bool is_default = true;                          // false: simulated only on request
  int num_policies = 1;                            // number of policies that one run simulates
  bool has_nodes_parameter = false;                // the scenario has the parameter `nodes`
  int repetitions = 1;                             // of a case, unless SimulationSettings::repetitions is set
  std::vector<MetricInfo> simulator_metrics = {};  // metrics that only the simulator provides
};

// Returns all scenarios, in the order of their files (generated from the files).
const std::vector<const ScenarioSpec*>& all_scenarios();
// Returns the scenario of that name. If there is none, throws std::invalid_argument, which names the nearest one.
const ScenarioSpec& find_scenario(const std::string& name);

// Returns the size of the machine's last-level cache.
std::int64_t llc_bytes(const Machine& machine);
// Returns the selection of sizes for scenarios of a pair of ranks: the tier `quick` excludes sizes whose simulation
// takes more than a few seconds.
SizeChoice limit_pair_sizes(const SizeChoice& choice);
// Returns whether the tier `quick` excludes a case in which `ranks` ranks move `bytes` each: its simulation would take
// minutes, as on a machine with many cores, and the user has not requested its size.
bool is_too_large_for_quick(const SizeChoice& choice, std::int64_t ranks, std::int64_t bytes);

}  // namespace nearfield::sim

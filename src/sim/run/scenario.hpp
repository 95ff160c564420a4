// Simulates a scenario, which src/scenario/ declares, as a program over Cluster and Rank. Each file in scenarios/
// exports one ScenarioSpec; the build finds the files. Every case runs on a new simulated machine with cold caches, so
// cases may run in any order and concurrently, and results are reproducible.
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

// The placement of a pair of ranks: core 0 of node 0 and of node `peer` if between nodes, otherwise two cores of one
// node.
struct Place {
  bool between_nodes = false;
  int own = 0;  // core of the sender, inside a node
  int peer = 1;
};

// The settings of a simulation apart from the case's parameters.
struct Axes {
  std::vector<std::string> policies;       // of the NICs, as many as ScenarioSpec::policies; empty: the machine's own
  std::vector<double> memory_slowdown{1};  // from 1 to `num_memory_speeds` of them
  std::optional<int> repetitions = {};     // of a collective or an application; nullopt: the scenario's default
  bool memory_effects = true;              // see ClusterOptions
};

// One case to simulate.
struct Job {
  const Machine& machine;
  Place place;
  const Parameters& parameters;
  Axes axes = {};
  std::function<void()> progress_callback = {};  // see ClusterOptions

  // Returns options for one node with one rank and these axes. Throws std::invalid_argument for invalid axes.
  ClusterOptions options() const;
};

// The selection of cases.
struct Choice {
  SizeChoice sizes;
  std::vector<int> nodes;  // of scenarios that have the parameter; empty: each scenario's defaults
};

struct ScenarioSpec {
  const ScenarioInfo& info;
  // Returns why this machine cannot run it at this placement; empty if it can.
  std::string (*unable)(const Machine& machine, const Place& place);
  std::vector<Parameters> (*cases)(const Machine& machine, const Place& place, const Choice& choice);
  std::vector<Result> (*run)(const Job& job);
  bool usual = true;                          // false: simulated only on request
  int policies = 1;                           // number of policies that one run simulates
  bool of_nodes = false;                      // has the parameter `nodes`
  int repetitions = 1;                        // of a case, unless Axes::repetitions is set
  std::vector<MetricInfo> more_metrics = {};  // those that only the simulator provides
};

// Returns every scenario, in the order of their files (generated from them).
const std::vector<const ScenarioSpec*>& all_scenarios();
// Returns the scenario of that name. Throws std::invalid_argument that names the nearest one.
const ScenarioSpec& find_scenario(const std::string& name);

// Returns the size of the machine's last-level cache.
std::int64_t llc_bytes(const Machine& machine);
// Returns the selection of sizes for a pair: `quick` excludes sizes that take the host more than a few seconds.
SizeChoice of_pair(const SizeChoice& choice);
// Returns whether `quick` excludes a case in which `ranks` ranks move `bytes` each, unless the user requested the size.
// On a machine with many cores, such a case takes the host minutes.
bool is_too_large_for_quick(const SizeChoice& choice, std::int64_t ranks, std::int64_t bytes);

}  // namespace nearfield::sim

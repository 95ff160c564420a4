// Simulates a scenario, which src/scenario/ declares, as a program over Cluster and Rank. Each file in scenarios/
// exports one ScenarioSpec; the build finds the files. Every case runs on a machine of its own that nobody
// has used before, so that cases may run in any order and at the same time, and each gives the same numbers every time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "scenario/scenario.hpp"
#include "scenario/size_ladder.hpp"
#include "sim/cluster.hpp"
#include "sim/results.hpp"

namespace nearfield {
struct Machine;
}

namespace nearfield::sim {

// The place of a pair of ranks: between nodes core 0 of node 0 and of node `peer`, otherwise cores of one node.
struct Place {
  bool between_nodes = false;
  int own = 0;  // core of the sender, inside a node
  int peer = 1;
};

// The settings of a simulation besides the case's parameters.
struct Axes {
  std::vector<std::string> policies;       // of the NICs, as many as ScenarioSpec::policies; none: the machine's own
  std::vector<double> memory_slowdown{1};  // from 1 to `speeds` of them
  std::optional<int> repetitions = {};     // of a collective or an application; none: as often as is usual
  bool memory_effects = true;              // see ClusterOptions
};

// One case to simulate.
struct Job {
  const Machine& machine;
  Place place;
  const Parameters& parameters;
  Axes axes = {};
  std::function<void()> now_and_then = {};  // see ClusterOptions

  // Returns options for one node with one rank, with the axes filled in. Throws std::invalid_argument for axes that
  // cannot be.
  ClusterOptions options() const;
};

// The choice of cases.
struct Choice {
  SizeChoice sizes;
  std::vector<int> nodes;  // of scenarios that have the parameter; none: those usual for each
};

struct ScenarioSpec {
  const ScenarioInfo& info;
  // Returns why this machine cannot do it at the place; empty if it can.
  std::string (*unable)(const Machine& machine, const Place& place);
  std::vector<Parameters> (*cases)(const Machine& machine, const Place& place, const Choice& choice);
  std::vector<Result> (*run)(const Job& job);
  bool usual = true;                          // false: simulated only when asked for
  int policies = 1;                           // of a NIC, that one run carries
  bool of_nodes = false;                      // takes the parameter `nodes`
  int repetitions = 1;                        // of a case, unless its axes say otherwise
  std::vector<MetricInfo> more_metrics = {};  // that only the simulator knows
};

// Returns every scenario, in the order of their files (generated from them).
const std::vector<const ScenarioSpec*>& all_scenarios();
// Returns the scenario of that name. Throws std::invalid_argument that names the nearest one.
const ScenarioSpec& find_scenario(const std::string& name);

// Returns the size of the machine's last cache.
std::int64_t llc_bytes(const Machine& machine);
// Returns the choice of sizes for a pair: `quick` takes none that a host simulates for more than some seconds.
SizeChoice of_pair(const SizeChoice& choice);
// Returns whether `quick` leaves a case out in which this many ranks move this many bytes each, unless the user asked
// for the size. On a machine with many cores, such a case takes a host minutes.
bool too_much(const SizeChoice& choice, std::int64_t ranks, std::int64_t bytes);

}  // namespace nearfield::sim

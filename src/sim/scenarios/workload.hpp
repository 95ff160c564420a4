// The common part of scenarios of a whole cluster: how many ranks run on each node, and the numbers of a workload that
// was run several times.
#pragma once

#include "sim/scenario.hpp"
#include "sim/workload.hpp"

namespace nearfield::sim {

// Returns the options of a cluster for the parameters `ranks` and `nodes`; without `nodes` it has one node. Throws
// std::invalid_argument if the ranks cannot be spread evenly.
ClusterOptions options_for_nodes(const Job& job);

// Returns times by every policy and memory speed, and the counts of all nodes together, as means over the repetitions.
std::vector<Result> results_of(const Job& job, const std::vector<Repetition>& repetitions);

// Returns the spec with what scenarios have in common whose results are results_of(): the metrics beside `time`, and
// that they take the parameter `nodes` and several policies in one run.
ScenarioSpec workload_scenario(ScenarioSpec spec);

inline constexpr int usual_nodes = 8;  // if several are needed, and the user gives no number

// Returns the pairs (ranks, nodes) that are wanted: one rank on each of the nodes asked for; `usual` if none are.
struct Spread {
  int ranks, nodes;
};
std::vector<Spread> spreads(const Machine& machine, const Choice& choice, Spread usual);

}  // namespace nearfield::sim

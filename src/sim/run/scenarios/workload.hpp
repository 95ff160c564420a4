// The common part of scenarios of a whole cluster: the number of ranks per node, and the results of a workload that
// runs several times.
#pragma once

#include "sim/run/scenario.hpp"
#include "sim/run/workload.hpp"

namespace nearfield::sim {

// Returns the options of a cluster for the parameters `ranks` and `nodes` of a case; without `nodes`, the cluster has
// one node. Throws std::invalid_argument if the ranks cannot be spread evenly.
ClusterOptions options_for_nodes(const SimulationJob& job);

// Returns times for every policy and memory speed, and the counts of all nodes together, as means over the repetitions.
std::vector<Result> workload_results(const SimulationJob& job, const std::vector<Repetition>& repetitions);

// Completes the spec of a scenario that returns its results with workload_results(): adds the metrics other than
// `time`, the parameter `nodes`, and the simulation of several policies per run.
ScenarioSpec workload_scenario(ScenarioSpec spec);

inline constexpr int default_nodes = 8;  // default number of nodes for scenarios that need several

// How many ranks run on how many nodes.
struct RankLayout {
  int ranks, nodes;
};
// Returns one rank per node for each number of nodes that the user requests, or one rank per core for a single node;
// `default_layout` if the user requests none.
std::vector<RankLayout> rank_layouts(const Machine& machine, const CaseSelection& choice, RankLayout default_layout);

}  // namespace nearfield::sim

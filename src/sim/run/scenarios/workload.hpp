// The common part of scenarios of a whole cluster: the number of ranks per node, and the results of a workload that
// runs several times.
#pragma once

#include "sim/run/scenario.hpp"
#include "sim/run/workload.hpp"

namespace nearfield::sim {

// Returns the options of a cluster for the parameters `ranks` and `nodes`; without `nodes` it has one node. Throws
// std::invalid_argument if the ranks cannot be spread evenly.
ClusterOptions options_for_nodes(const Job& job);

// Returns times for every policy and memory speed, and the counts of all nodes together, as means over the repetitions.
std::vector<Result> results_of(const Job& job, const std::vector<Repetition>& repetitions);

// Completes the spec of a scenario whose results are results_of(): adds the metrics other than `time`, the parameter
// `nodes`, and several policies per run.
ScenarioSpec workload_scenario(ScenarioSpec spec);

inline constexpr int usual_nodes = 8;  // default for scenarios that need several

// Returns the requested pairs (ranks, nodes), with one rank per requested node; `usual` if the user requests none.
struct Spread {
  int ranks, nodes;
};
std::vector<Spread> spreads(const Machine& machine, const Choice& choice, Spread usual);

}  // namespace nearfield::sim

// Whole applications as programs over the ranks of a simulated cluster (app/application.hpp), as in paper S4
// (papers/S4/README.md), section 4.5.
#include "sim/run/app/application.hpp"

#include <stdexcept>

#include "base/registry.hpp"
#include "machine/machine.hpp"
#include "sim/run/scenarios/workload.hpp"

namespace nearfield::sim {
namespace {

constexpr int default_runs = 1;

std::vector<Result> simulate_application(const SimulationJob& job) {
  Cluster cluster(job.machine, options_for_nodes(job));
  const auto bytes = static_cast<std::uint64_t>(number_parameter(job.parameters, "size_bytes"));
  const auto workload = find_named(all_applications(), word_parameter(job.parameters, "operation"), "application")
                            .make(cluster.num_ranks(), bytes);
  return workload_results(job, measure_workload(cluster, *workload, job.settings.repetitions.value_or(default_runs)));
}

bool can_be_partitioned(const ApplicationSpec& application, int ranks, std::uint64_t bytes) {
  try {
    application.make(ranks, bytes);
    return true;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

std::vector<Parameters> application_cases(const Machine& machine, const PairPlacement&, const CaseSelection& choice) {
  std::vector<Parameters> list;
  const int num_default_nodes = std::min(default_nodes, machine.max_nodes);
  for (const auto& [ranks, nodes] : rank_layouts(machine, choice, {num_default_nodes, num_default_nodes}))
    for (const auto* application : all_applications())
      for (const auto bytes : application->default_bytes) {
        if (!can_be_partitioned(*application, ranks, bytes)) continue;
        list.push_back({{"operation", std::string(application->name)},
                        {"size_bytes", static_cast<std::int64_t>(bytes)},
                        {"ranks", std::int64_t{ranks}},
                        {"nodes", std::int64_t{nodes}}});
      }
  return list;
}

std::string unsupported_reason(const Machine& machine, const PairPlacement&) {
  return machine.max_nodes > 1 ? "" : "the machine's description has no NIC and network: it is one node";
}

const ScenarioInfo info{
    "application",
    "Whole applications over all ranks of a cluster",
    Ranks::all,
    {{"operation", "which application"},
     {"size_bytes", "of one rank's part of the problem"},
     {"ranks", "how many take part"}},
    {{"time", "ns", Combine::slowest, "until the last rank is done"}},
};

}  // namespace

extern const ScenarioSpec application_scenario;
const ScenarioSpec application_scenario = workload_scenario({.info = info,
                                                             .unsupported_reason = unsupported_reason,
                                                             .cases = application_cases,
                                                             .run = simulate_application,
                                                             .is_default = false,
                                                             .repetitions = default_runs});

}  // namespace nearfield::sim

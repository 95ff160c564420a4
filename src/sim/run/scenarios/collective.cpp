// scenario/collective.hpp on a simulated machine, by MPICH's algorithms: among the ranks of one node, one per core, or
// among nodes. Each rank writes its contribution once; cache contents persist between the calls. Not modeled:
// collectives through memory that all ranks of a node share, which some MPI libraries use inside a node.
#include "scenario/collective.hpp"

#include "machine/machine.hpp"
#include "sim/mpi/collective.hpp"
#include "sim/run/collective_workload.hpp"
#include "sim/run/scenarios/workload.hpp"

namespace nearfield::sim {
namespace {

constexpr int default_calls = 7;  // paper S4 (papers/S4/README.md), section 4.4: the average of seven runs

std::vector<Result> simulate_collective(const SimulationJob& job) {
  Cluster cluster(job.machine, options_for_nodes(job));
  CollectiveRequest request;
  request.collective = word_parameter(job.parameters, "operation");
  request.bytes = static_cast<std::uint64_t>(number_parameter(job.parameters, "size_bytes"));
  request.repetitions = job.settings.repetitions.value_or(default_calls);
  return workload_results(job, measure_collective(cluster, request));
}

std::vector<Parameters> collective_cases(const Machine& machine, const PairPlacement&, const CaseSelection& choice) {
  SizeChoice sizes = choice.sizes;
  sizes.max_message_bytes = 256 << 10;  // larger sizes take the host long
  std::vector<Parameters> list;
  const int alone = std::min(default_nodes, machine.max_nodes);  // nodes with one rank each
  const RankLayout default_layout = machine.cores > 1 ? RankLayout{machine.cores, 1} : RankLayout{alone, alone};
  for (const auto& [ranks, nodes] : rank_layouts(machine, choice, default_layout))
    for (const auto size : collective_sizes(sizes))
      for (const char* operation : collective_operations) {
        const auto bytes = static_cast<std::uint64_t>(size);
        const CollectiveBufferSizes each = find_collective(operation).buffer_sizes(0, ranks, {0, 0, bytes, 0});
        const auto moved = static_cast<std::int64_t>(std::max(each.input_bytes, each.output_bytes));
        if (is_too_large_for_quick(sizes, ranks, default_calls / 3 * moved))
          continue;  // the limit of `quick` was chosen for 3 calls
        list.push_back({{"operation", operation}, {"size_bytes", size}, {"ranks", std::int64_t{ranks}}});
        if (nodes > 1 || !choice.nodes.empty()) list.back().emplace_back("nodes", std::int64_t{nodes});
      }
  return list;
}

std::string unsupported_reason(const Machine& machine, const PairPlacement&) {
  return machine.cores > 1 || machine.max_nodes > 1 ? "" : "the machine has one core: a collective needs two";
}

}  // namespace

extern const ScenarioSpec collective_scenario;
const ScenarioSpec collective_scenario = workload_scenario({.info = collective_info,
                                                            .unsupported_reason = unsupported_reason,
                                                            .cases = collective_cases,
                                                            .run = simulate_collective,
                                                            .repetitions = default_calls});

}  // namespace nearfield::sim

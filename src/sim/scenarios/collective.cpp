// Bcast, Allreduce, Allgather and Alltoall among the ranks of one node, one on each core, by MPICH's algorithms; what
// each gives was written once, before. Among nodes, and by other policies of the NIC: `nearfield simulate`. Left out:
// collectives over a window that all of a node share, which some MPIs have inside a node.
#include "sim/collective.hpp"

#include <algorithm>

#include "sim/collectives/measure.hpp"
#include "sim/scenarios/pair.hpp"

namespace nearfield::sim {
namespace {

constexpr const char* operations[] = {"bcast", "allreduce", "allgather", "alltoall"};
constexpr std::int64_t largest = 256 << 10;
constexpr int repetitions_of_a_call = 3;

std::vector<Result> run(const Machine& machine, const Place&, const Parameters& parameters) {
  ClusterOptions options;
  options.ranks_per_node = machine.cores;
  Cluster cluster(machine, options);
  CollectiveRequest request;
  request.collective = word(parameters, "operation");
  request.repetitions = repetitions_of_a_call;
  request.bytes = static_cast<std::uint64_t>(number(parameters, "size_bytes"));
  std::vector<double> times_ns;
  for (const auto& repetition : measure_collective(cluster, request)) times_ns.push_back(repetition.time.first() / 1e3);
  const auto middle = times_ns.begin() + static_cast<std::ptrdiff_t>(times_ns.size() / 2);
  std::nth_element(times_ns.begin(), middle, times_ns.end());
  return {{"time", "ns", "", *middle, ""}};
}

std::vector<Parameters> cases(const Machine& machine, const Place&, const SizeChoice& choice) {
  std::vector<std::int64_t> sizes = size_ladder(choice, 8, largest);
  for (auto& size : sizes) size = std::max<std::int64_t>(8, size / 8 * 8);  // sums are of whole numbers
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  std::vector<Parameters> list;
  for (const auto size : sizes)
    for (const char* operation : operations) {
      const auto bytes = static_cast<std::uint64_t>(size);
      const CallSizes each = find_collective(operation).sizes(0, machine.cores, {0, 0, bytes, 0});
      if (too_much(choice, machine.cores, static_cast<std::int64_t>(std::max(each.in_bytes, each.out_bytes)))) continue;
      list.push_back({{"operation", operation}, {"size_bytes", size}, {"ranks", std::int64_t{machine.cores}}});
    }
  return list;
}

std::string unable(const Machine& machine, const Place&) {
  return machine.cores > 1 ? "" : "a node has one core; the verb simulate runs collectives among nodes";
}

}  // namespace

const ScenarioSpec collective_scenario{
    "collective",
    "Bcast, Allreduce, Allgather and Alltoall over all cores of a node",
    false,
    {{"operation", "bcast, allreduce, allgather or alltoall"},
     {"size_bytes", "what one rank contributes (to each other rank)"},
     {"ranks", "how many take part"}},
    {{"time", "ns", "until the slowest rank returned"}},
    unable,
    cases,
    run,
};

}  // namespace nearfield::sim

#include "sim/replay/run.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <tuple>

namespace nearfield::sim::replay {
namespace {

ReplayedOutcome outcome_of(ReplayedRank& rank) {
  ReplayedOutcome outcome{{},
                          rank.times().computing(),
                          rank.accesses(),
                          rank.skipped_accesses(),
                          rank.flops(),
                          rank.dependence(),
                          {rank.regions().begin(), rank.regions().end()}};
  for (const auto& [call, spent] : rank.times().calls())
    outcome.calls.push_back(
        {rank.text(call.name), rank.place(call.call_site), spent, rank.times().timeline().parts(call)});
  std::ranges::sort(outcome.calls, {},
                    [](const CallOutcome& call) { return std::tie(call.name, call.place.object, call.place.offset); });
  return outcome;
}

}  // namespace

Replayed run(const Machine& machine, const ClusterOptions& cluster_options, const std::vector<Stream>& streams,
             const Options& options) {
  Cluster cluster(machine, cluster_options);
  if (streams.size() != static_cast<std::size_t>(cluster.ranks()))
    throw std::invalid_argument("the program ran with " + std::to_string(streams.size()) + " ranks, but " +
                                std::to_string(cluster_options.nodes) + " nodes of " +
                                std::to_string(cluster_options.ranks_per_node) + " ranks are " +
                                std::to_string(cluster.ranks()));
  std::vector<std::unique_ptr<ReplayedRank>> ranks(streams.size());
  Replayed result;
  result.cluster = cluster.run([&](Rank& rank) {
    const auto number = static_cast<std::size_t>(rank.rank());
    ranks[number] = std::make_unique<ReplayedRank>(streams[number], rank, options, cluster_options);
    return ranks[number]->run();
  });
  for (const auto& rank : ranks) result.part_ps = std::max(result.part_ps, rank->times().timeline().width());
  for (const auto& rank : ranks) {
    rank->times().timeline().widen_to(result.part_ps);
    result.ranks.push_back(outcome_of(*rank));
  }
  return result;
}

}  // namespace nearfield::sim::replay

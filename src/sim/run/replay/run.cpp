#include "sim/run/replay/run.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <stdexcept>
#include <tuple>

#include "sim/engine/packing.hpp"
#include "sim/run/replay/merge_shards.hpp"

namespace nearfield::sim::replay {
namespace {

RankReplayResult outcome_of_rank(ReplayedRank& rank) {
  RankReplayResult outcome{{},
                           rank.call_times().compute_time(),
                           rank.access_replay().num_replayed(),
                           rank.access_replay().num_skipped(),
                           rank.access_replay().replayed_flops(),
                           rank.timing_sensitivity(),
                           {rank.started_regions().begin(), rank.started_regions().end()}};
  for (const auto& [call, spent] : rank.call_times().times_by_call())
    outcome.calls.push_back({rank.definitions().text_of(call.name), rank.definitions().call_place(call.call_site),
                             spent, rank.call_times().timeline().time_per_bin(call),
                             rank.call_times().intervals_of(call), rank.received_by(call)});
  std::ranges::sort(outcome.calls, {},
                    [](const CallOutcome& call) { return std::tie(call.name, call.place.object, call.place.offset); });
  return outcome;
}

// Widens the parts of all timelines to the widest part among the ranks of all shards. Returns that width.
Ps widen_timelines(std::span<const std::unique_ptr<ReplayedRank>> ranks, Shards& shards) {
  Ps max_width = 0;
  for (const auto& rank : ranks) max_width = std::max(max_width, rank->call_times().timeline().bin_width());
  Packing packing;
  packing(max_width);
  for (const std::string& bytes : shards.exchange(packing.bytes())) {
    Ps width = 0;
    Unpacking{bytes}(width);
    max_width = std::max(max_width, width);
  }
  for (const auto& rank : ranks) rank->call_times().timeline().widen_to(max_width);
  return max_width;
}

}  // namespace

ReplayResult run_replay(const Machine& machine, const ClusterOptions& cluster_options,
                        const std::vector<RankStream>& streams, const ReplayOptions& options) {
  Cluster cluster(machine, cluster_options);
  if (streams.size() != static_cast<std::size_t>(cluster.num_ranks()))
    throw std::invalid_argument("the program ran with " + std::to_string(streams.size()) + " ranks, but " +
                                std::to_string(cluster_options.nodes) + " nodes of " +
                                std::to_string(cluster_options.ranks_per_node) + " ranks are " +
                                std::to_string(cluster.num_ranks()));
  Shards alone;
  Shards& shards = cluster_options.shards ? *cluster_options.shards : alone;
  const NodeRange local_nodes = shards.nodes_of_this_shard(cluster_options.nodes);
  const int first = local_nodes.begin * cluster_options.ranks_per_node;
  std::vector<std::unique_ptr<ReplayedRank>> ranks(
      static_cast<std::size_t>(local_nodes.size() * cluster_options.ranks_per_node));
  ReplayResult result;
  result.cluster = cluster.run([&](Rank& rank) {
    auto& replayed_rank = ranks[static_cast<std::size_t>(rank.rank() - first)];
    replayed_rank =
        std::make_unique<ReplayedRank>(streams[static_cast<std::size_t>(rank.rank())], rank, options, cluster_options);
    return replayed_rank->run();
  });
  result.bin_ps = widen_timelines(ranks, shards);
  for (const auto& rank : ranks) result.ranks.push_back(outcome_of_rank(*rank));
  return merge_shards(std::move(result), shards);
}

}  // namespace nearfield::sim::replay

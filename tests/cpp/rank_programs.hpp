// What tests of simulated ranks run, and on which cluster.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/run/cluster.hpp"

namespace nearfield::sim {

inline ClusterOptions options(int nodes, int ranks_per_node, bool has_memory_effects,
                              std::vector<std::string> policies = {"memory"}) {
  ClusterOptions result;
  result.nodes = nodes;
  result.ranks_per_node = ranks_per_node;
  result.has_memory_effects = has_memory_effects;
  result.placement_policy_names = std::move(policies);
  result.memory_slowdown = {1, 2.5, 5, 7.5};
  return result;
}

// One message from rank 0 to rank 1; each waits for it.
inline Program one_message(std::uint64_t bytes) {
  return [bytes](Rank& rank) -> Task<> {
    const Buffer buffer(rank.allocate(bytes), bytes);
    if (rank.rank() == 0) co_await rank.wait(rank.send(1, buffer, 5));
    if (rank.rank() == 1) co_await rank.wait(rank.receive(0, buffer, 5));
  };
}

}  // namespace nearfield::sim

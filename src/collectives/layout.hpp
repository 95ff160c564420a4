// The placement of a communicator's ranks: on which nodes they run, and to which lanes they belong.
//
// Lane i consists of the i-th rank of each node: lane 0 of the first rank of each node, lane 1 of the second, and so
// on. The number of lanes is the smallest number of ranks on any node.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace nearfield::collectives {

class Layout {
 public:
  Layout() = default;

  // `hosts[i]` is an arbitrary number that identifies the node of rank i: ranks on the same node have equal numbers.
  // Nodes are numbered in the order of their first ranks. `rank` is the rank of this process.
  Layout(const std::vector<std::uint64_t>& hosts, int rank) {
    std::vector<std::uint64_t> host_of_node;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      const auto node = static_cast<std::size_t>(std::ranges::find(host_of_node, hosts[i]) - host_of_node.begin());
      if (node == host_of_node.size()) host_of_node.push_back(hosts[i]), ranks_by_node_.emplace_back();
      places_.push_back({static_cast<int>(node), static_cast<int>(ranks_by_node_[node].size())});
      ranks_by_node_[node].push_back(static_cast<int>(i));
    }
    own_place_ = places_[static_cast<std::size_t>(rank)];
    num_lanes_ = max_ranks_per_node_ = static_cast<int>(ranks_by_node_[0].size());
    for (const auto& members : ranks_by_node_) {
      num_lanes_ = std::min(num_lanes_, static_cast<int>(members.size()));
      max_ranks_per_node_ = std::max(max_ranks_per_node_, static_cast<int>(members.size()));
    }
  }

  struct RankPlace {
    int node, local;  // `local`: the index among the ranks of the node
  };

  int nodes() const { return static_cast<int>(ranks_by_node_.size()); }
  int lanes() const { return num_lanes_; }
  int max_ranks_per_node() const { return max_ranks_per_node_; }
  // Returns whether all nodes have the same number of ranks. Then each rank is in a lane.
  bool is_balanced() const { return num_lanes_ == max_ranks_per_node_; }

  RankPlace own_place() const { return own_place_; }
  RankPlace place_of(int rank) const { return places_[static_cast<std::size_t>(rank)]; }
  int rank_of(int node, int local) const { return ranks_of_node(node)[static_cast<std::size_t>(local)]; }
  const std::vector<int>& ranks_of_node(int node) const { return ranks_by_node_[static_cast<std::size_t>(node)]; }

 private:
  std::vector<std::vector<int>> ranks_by_node_;  // by node: its ranks, in ascending order
  std::vector<RankPlace> places_;                // by rank
  RankPlace own_place_{0, 0};
  int num_lanes_ = 0, max_ranks_per_node_ = 0;
};

}  // namespace nearfield::collectives

// The placement of a communicator's ranks: on which nodes they run, and to which lanes they belong.
//
// Lane i consists of the i-th rank of each node, in the order of the ranks: lane 0 of the first rank of each node, lane
// 1 of the second, and so on. The number of lanes is the smallest number of ranks on any node.
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
    std::vector<std::uint64_t> known;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      const auto node = static_cast<std::size_t>(std::ranges::find(known, hosts[i]) - known.begin());
      if (node == known.size()) known.push_back(hosts[i]), members_.emplace_back();
      places_.push_back({static_cast<int>(node), static_cast<int>(members_[node].size())});
      members_[node].push_back(static_cast<int>(i));
    }
    own_ = places_[static_cast<std::size_t>(rank)];
    lanes_ = max_members_ = static_cast<int>(members_[0].size());
    for (const auto& members : members_) {
      lanes_ = std::min(lanes_, static_cast<int>(members.size()));
      max_members_ = std::max(max_members_, static_cast<int>(members.size()));
    }
  }

  struct RankPlace {
    int node, local;  // `local`: the index among the ranks of the node
  };

  int nodes() const { return static_cast<int>(members_.size()); }
  int lanes() const { return lanes_; }
  int max_ranks_per_node() const { return max_members_; }
  // Returns whether all nodes have the same number of ranks. Then each rank is in a lane.
  bool is_balanced() const { return lanes_ == max_members_; }

  RankPlace own_place() const { return own_; }
  RankPlace place_of(int rank) const { return places_[static_cast<std::size_t>(rank)]; }
  int rank_of(int node, int local) const { return ranks_of_node(node)[static_cast<std::size_t>(local)]; }
  const std::vector<int>& ranks_of_node(int node) const { return members_[static_cast<std::size_t>(node)]; }

 private:
  std::vector<std::vector<int>> members_;  // by node: its ranks, in ascending order
  std::vector<RankPlace> places_;          // by rank
  RankPlace own_{0, 0};
  int lanes_ = 0, max_members_ = 0;
};

}  // namespace nearfield::collectives

// Where the ranks of a communicator lie: on which nodes, and in which lanes.
//
// A rank's lane is made of the ranks of all nodes that have the same place in the order of their node's ranks: lane 0 of
// the first rank of each node, lane 1 of the second ones, and so on. There are as many lanes as the node with the fewest
// ranks has ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace nearfield::collectives {

class Layout {
 public:
  Layout() = default;

  // `hosts` has, for each rank, a number that the ranks of one node share. Nodes are numbered in the order of their
  // first ranks. `rank` is the own one.
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

  struct Place {
    int node, local;  // `local`: the place in the order of the node's ranks
  };

  int nodes() const { return static_cast<int>(members_.size()); }
  int lanes() const { return lanes_; }
  int max_members() const { return max_members_; }
  // Returns whether all nodes have the same number of ranks, so that each rank is in a lane.
  bool is_even() const { return lanes_ == max_members_; }

  Place own() const { return own_; }
  Place place_of(int rank) const { return places_[static_cast<std::size_t>(rank)]; }
  int rank_of(int node, int local) const { return members_of(node)[static_cast<std::size_t>(local)]; }
  const std::vector<int>& members_of(int node) const { return members_[static_cast<std::size_t>(node)]; }

 private:
  std::vector<std::vector<int>> members_;  // the ranks of each node, in rising order
  std::vector<Place> places_;              // of each rank
  Place own_{0, 0};
  int lanes_ = 0, max_members_ = 0;
};

}  // namespace nearfield::collectives

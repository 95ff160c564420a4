// Assigns each rank a place in the grid of ranks, and forms the groups of places on a node whose ranks share one array.
#pragma once

#include <vector>

#include "halo/layout.hpp"

namespace nearfield::halo {

struct Placement {
  std::vector<int> rank_by_place_number;  ///< place number -> rank
  std::vector<Ranks> place_by_rank;       ///< rank -> place
  /// rank -> number of its group. The ranks of a group share one array; their places form a box on one node.
  std::vector<int> array_group_by_rank;
};

/// Assigns places. If all nodes have as many ranks as the box `node_dims` has places, the ranks of each node form such
/// a box; otherwise places follow the order of ranks, the last dimension fastest. The ranks of each node are then split
/// into boxes, the groups that share an array; with `makes_single_rank_groups`, every rank is a group by itself.
Placement place_ranks(const Layout& layout, const std::vector<int>& node_by_rank, const Ranks& node_dims,
                      bool makes_single_rank_groups);

}  // namespace nearfield::halo

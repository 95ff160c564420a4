// Assigns each rank a place in the grid of ranks, and groups places on a node whose ranks share one array.
#pragma once

#include <vector>

#include "halo/layout.hpp"

namespace nearfield::halo {

struct Placement {
  std::vector<int> rank_at;     ///< place number -> rank
  std::vector<Ranks> place_of;  ///< rank -> place
  std::vector<int> group_of;    ///< rank -> number of the group that shares an array: a box of places on one node
};

/// Assigns places. If all nodes have as many ranks as the box `node_dims` has places, the ranks of each node form such
/// a box; otherwise places follow the order of ranks, the last dimension fastest. The ranks of a node are then split
/// into boxes, the groups that share an array; with `single`, every rank is a group of its own. `node_of`: rank ->
/// number of its node.
Placement place_ranks(const Layout& layout, const std::vector<int>& node_of, const Ranks& node_dims, bool single);

}  // namespace nearfield::halo

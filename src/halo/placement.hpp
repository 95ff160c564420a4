// Decides which rank has which place in the grid of ranks, and which places of a node share one array.
#pragma once

#include <vector>

#include "halo/layout.hpp"

namespace nearfield::halo {

struct Placement {
  std::vector<int> rank_at;     ///< place number -> rank
  std::vector<Ranks> place_of;  ///< rank -> place
  std::vector<int> island_of;   ///< rank -> number of its island: a box of places whose ranks are on one node
};

/// Gives the ranks their places so that the ranks of each node form the box `node_dims`, if all nodes have that many;
/// otherwise by rank, the last dimension fastest. A node's ranks are then cut into boxes: its islands. `single`: every
/// rank is an island of its own. `node_of`: rank -> number of its node.
Placement place(const Layout& layout, const std::vector<int>& node_of, const Ranks& node_dims, bool single);

}  // namespace nearfield::halo

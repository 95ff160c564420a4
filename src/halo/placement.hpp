// Decides the place of each rank in the grid of ranks, and the groups of places on a node that share one array.
#pragma once

#include <vector>

#include "halo/layout.hpp"

namespace nearfield::halo {

struct Placement {
  std::vector<int> rank_at;     ///< place number -> rank
  std::vector<Ranks> place_of;  ///< rank -> place
  std::vector<int> group_of;    ///< rank -> its shared-array group: a box of places whose ranks are on one node
};

/// Assigns places so that the ranks of each node form the box `node_dims`, if all nodes have that many; otherwise by
/// rank, the last dimension fastest. A node's ranks are then split into boxes, the shared-array groups. `single`: every
/// rank is a group of its own. `node_of`: rank -> number of its node.
Placement place(const Layout& layout, const std::vector<int>& node_of, const Ranks& node_dims, bool single);

}  // namespace nearfield::halo

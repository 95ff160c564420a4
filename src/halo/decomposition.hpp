// Decomposes a grid over ranks: checks the dims that the user chose, and chooses the others by predicted exchange time.
#pragma once

#include <vector>

#include "halo/layout.hpp"
#include "halo/node.hpp"
#include "plan/plan.hpp"

namespace nearfield::halo {

/// Throws Error(argument) if a grid of this many dimensions cannot be decomposed over this many ranks with the dims and
/// halo of the layout.
void check_decomposition(const Layout& layout, int dimensions, int ranks);

/// Returns all decompositions with the dims that the user chose (dims that are not 0), the fastest first. If the ranks
/// would have fewer cells than the halo is wide, no time is predicted, and the only decomposition is that of
/// MPI_Dims_create.
std::vector<planning::Plan> rank_decompositions(const Layout& layout, int dimensions, const planning::Costs& costs,
                                                const Node& node, int ranks_per_node);

/// Returns the number of ranks on the node that has the fewest.
int min_ranks_per_node(const Node& node);

}  // namespace nearfield::halo

// Decomposes a grid over ranks: checks the dims that the user has set, and chooses the others by predicted exchange
// time. `dims` are the ranks per dimension, as in MPI_Dims_create.
#pragma once

#include <vector>

#include "halo/layout.hpp"
#include "halo/node.hpp"
#include "plan/plan.hpp"

namespace nearfield::halo {

/// Throws Error(argument) if a grid of this many dimensions cannot be decomposed over this many ranks with the dims and
/// halo of the layout.
void check_decomposition(const Layout& layout, int dimensions, int ranks);

/// Returns all decompositions that keep the dims that the user has set (dims that are not 0), in ascending order of
/// predicted exchange time. If ranks would have fewer cells than the halo is wide, no time can be predicted, and the
/// only decomposition is that of MPI_Dims_create.
std::vector<planning::Plan> list_decompositions_by_time(const Layout& layout, int dimensions,
                                                        const planning::Costs& costs, const Node& node,
                                                        int ranks_per_node);

/// Returns the number of ranks on the node that has the fewest.
int min_ranks_per_node(const Node& node);

}  // namespace nearfield::halo

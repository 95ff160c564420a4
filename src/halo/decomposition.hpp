// Splits a grid over its ranks: it checks the user's choices and makes the others by predicted time.
#pragma once

#include <vector>

#include "halo/layout.hpp"
#include "halo/node.hpp"
#include "plan/plan.hpp"

namespace nearfield::halo {

/// Throws Error(argument) unless a grid of so many dimensions can be split over so many ranks as the layout says.
void check_decomposition(const Layout& layout, int dimensions, int ranks);

/// Returns all splits that leave the user's choices (dims that are not 0) as they are, best first. Where parts would be
/// smaller than the halo, no plan is made, and the only split is the one that MPI makes.
std::vector<planning::Plan> decompositions(const Layout& layout, int dimensions, const planning::Costs& costs,
                                           const Node& node, int ranks_per_node);

/// Returns the ranks on the node that has the fewest.
int least_ranks_per_node(const Node& node);

}  // namespace nearfield::halo

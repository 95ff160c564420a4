// Decomposes a grid over its ranks: checks the user's choices and makes the others by predicted time.
#pragma once

#include <vector>

#include "halo/layout.hpp"
#include "halo/node.hpp"
#include "plan/plan.hpp"

namespace nearfield::halo {

/// Throws Error(argument) if a grid of this many dimensions cannot be decomposed over this many ranks as the layout
/// requires.
void check_decomposition(const Layout& layout, int dimensions, int ranks);

/// Returns all decompositions that respect the user's choices (dims that are not 0), best first. If parts would be
/// smaller than the halo, nothing is predicted, and the only decomposition is MPI's.
std::vector<planning::Plan> decompositions(const Layout& layout, int dimensions, const planning::Costs& costs,
                                           const Node& node, int ranks_per_node);

/// Returns the smallest number of ranks on a node.
int min_ranks_per_node(const Node& node);

}  // namespace nearfield::halo

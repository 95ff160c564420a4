// The default problem of the AMG benchmark, partitioned over ranks.
#pragma once

#include "sim/run/app/multigrid.hpp"

namespace nearfield::sim::multigrid {

struct AmgProblem {
  Matrix matrix;
  std::vector<int> first_row_by_rank;  // first row of each rank, and the end
};

// Builds the problem for `ranks` ranks with 48 * refinement^3 unknowns each. Throws std::invalid_argument unless
// `ranks` is a multiple of 8.
AmgProblem make_amg_problem(int ranks, int refinement);

}  // namespace nearfield::sim::multigrid

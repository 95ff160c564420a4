// The default problem of the AMG benchmark, partitioned over ranks.
#pragma once

#include "sim/run/app/multigrid.hpp"

namespace nearfield::sim::multigrid {

struct Problem {
  Matrix matrix;
  std::vector<int> first;  // first row of each rank, and the end
};

// Each rank has 48 * refinement^3 unknowns. Throws std::invalid_argument unless ranks are a multiple of 8.
Problem amg_problem(int ranks, int refinement);

}  // namespace nearfield::sim::multigrid

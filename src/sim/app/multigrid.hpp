// Algebraic multigrid on the host: the operators of every level and how often the solver iterates, from a real matrix.
// amg.cpp has what ranks do with them. It is as BoomerAMG in the AMG benchmark: strength 0.25, one level of
// aggressive coarsening, V-cycles with one symmetric Gauss-Seidel sweep inside each rank down, up and on the coarsest
// level, as preconditioner of conjugate gradients until the residual is 1e-6 of the first. Differences: PMIS
// coarsening everywhere (HMIS), multipass interpolation everywhere (extended+i below the finest level).
#pragma once

#include <vector>

namespace nearfield::sim::multigrid {

// A matrix by rows; the order of a row's entries has no meaning.
struct Matrix {
  int rows = 0, columns = 0;
  std::vector<int> begin{0};  // of each row, and the end
  std::vector<int> column;
  std::vector<double> value;

  void add(int at, double entry) {
    column.push_back(at);
    value.push_back(entry);
  }
  void end_row() {
    begin.push_back(static_cast<int>(column.size()));
    ++rows;
  }
};

struct Level {
  Matrix matrix;
  Matrix interpolation;    // of the next coarser level's unknowns; without rows on the coarsest
  std::vector<int> first;  // unknown of each rank, and behind the last one's
};

// Rows of one rank follow each other, from first[rank] on. A coarse unknown is the rank's that has the fine one.
std::vector<Level> hierarchy(Matrix finest, std::vector<int> first);

// Returns the number of iterations of conjugate gradients for a smooth solution.
int iterations(const std::vector<Level>& levels);

}  // namespace nearfield::sim::multigrid

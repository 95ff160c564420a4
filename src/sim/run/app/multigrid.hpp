// Algebraic multigrid on the host: computes the operators of every level and the solver's number of iterations from a
// real matrix. amg.cpp simulates what the ranks do with them. The method follows BoomerAMG in the AMG benchmark:
// strength 0.25, one level of aggressive coarsening, V-cycles with one symmetric Gauss-Seidel sweep inside each rank
// down, up and on the coarsest level, as preconditioner of conjugate gradients until the residual is 1e-6 of the
// initial one. Differences: PMIS coarsening everywhere (not HMIS), multipass interpolation everywhere (not extended+i
// below the finest level).
#pragma once

#include <vector>

namespace nearfield::sim::multigrid {

// A sparse matrix by rows (CSR); a row's entries are unordered.
struct Matrix {
  int rows = 0, columns = 0;
  std::vector<int> begin{0};  // index of the first entry of each row, and the end
  std::vector<int> column;
  std::vector<double> value;

  void add_entry(int at, double entry) {
    column.push_back(at);
    value.push_back(entry);
  }
  void end_row() {
    begin.push_back(static_cast<int>(column.size()));
    ++rows;
  }
};

struct MultigridLevel {
  Matrix matrix;
  Matrix interpolation;    // from the next coarser level; without rows on the coarsest
  std::vector<int> first;  // first unknown of each rank, and the end
};

// Builds all levels, the finest first. A rank's rows are contiguous, from first[rank] on. A coarse unknown belongs to
// the rank of its fine unknown.
std::vector<MultigridLevel> build_hierarchy(Matrix finest, std::vector<int> first);

// Solves for a smooth solution. Returns the number of conjugate-gradient iterations.
int count_pcg_iterations(const std::vector<MultigridLevel>& levels);

}  // namespace nearfield::sim::multigrid

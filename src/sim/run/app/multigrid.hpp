// Algebraic multigrid on the host: computes the operators of every level and the solver's number of iterations from a
// real matrix. amg.cpp simulates what the ranks do with them. The method follows BoomerAMG in the AMG benchmark: a
// strength threshold of 0.25, one level of aggressive coarsening, V-cycles with one symmetric Gauss-Seidel sweep inside
// each rank on the way down, on the way up and on the coarsest level, as preconditioner of conjugate gradients, which
// stop when the residual is 1e-6 of the initial one. Differences: PMIS coarsening on all levels (not HMIS), multipass
// interpolation on all levels (not extended+i below the finest level).
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
  Matrix interpolation;                // from the next coarser level; without rows on the coarsest
  std::vector<int> first_row_by_rank;  // first unknown of each rank, and the end
};

// Builds all levels, the finest first. The rows of a rank are contiguous and begin at first_row_by_rank[rank]. A coarse
// unknown belongs to the rank of the fine unknown from which it originates.
std::vector<MultigridLevel> build_hierarchy(Matrix finest, std::vector<int> first_row_by_rank);

// Solves the linear system for a smooth solution. Returns the number of conjugate-gradient iterations.
int count_pcg_iterations(const std::vector<MultigridLevel>& levels);

}  // namespace nearfield::sim::multigrid

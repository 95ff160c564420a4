// The inner loops of the examples, one row per call, on plain pointers. The result is written through a
// NEARFIELD_RESTRICT pointer: rows of a field may be a neighbour's, so a compiler cannot prove that the rows that are
// read do not overlap the row that is written, and would not vectorise the loop, or only behind a check at run time
// (Zhu et al., CCGrid 2015, IV.A). tests/unit/test_vectorised.py reads the vectorisation reports of the compiler.
#pragma once

#include <cstdint>

#ifndef NEARFIELD_RESTRICT
#define NEARFIELD_RESTRICT __restrict
#endif

namespace kernels {

/// next = next/2 + (north + south + west + east)/8. Returns the sum of the row (Zhu et al., algorithm 1).
inline double heat(const double* north, const double* here, const double* south, double* NEARFIELD_RESTRICT next,
                   std::int64_t from, std::int64_t to) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = from; j < to; ++j) {
    next[j] = next[j] / 2.0 + (north[j] + south[j] + here[j - 1] + here[j + 1]) / 8.0;
    sum += next[j];
  }
  return sum;
}

/// rows: the nine rows around the row that is written, those of the plane above first. Weights of cells by the number
/// of indices in which they differ from the updated cell: the middle, 6 faces, 12 edges, 8 corners.
struct Weights {
  double middle, face, edge, corner;
};

inline void seven_points(const double* const rows[9], const Weights& weights, double* NEARFIELD_RESTRICT next,
                         std::int64_t from, std::int64_t to) {
  const double *above = rows[1], *north = rows[3], *here = rows[4], *south = rows[5], *below = rows[7];
  const auto [middle, face, edge, corner] = weights;
  for (std::int64_t k = from; k < to; ++k)
    next[k] = middle * here[k] + face * (above[k] + below[k] + north[k] + south[k] + here[k - 1] + here[k + 1]);
}

inline void twenty_seven_points(const double* const rows[9], const Weights& weights, double* NEARFIELD_RESTRICT next,
                                std::int64_t from, std::int64_t to) {
  const double *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3], *e = rows[4], *f = rows[5], *g = rows[6],
               *h = rows[7], *i = rows[8];
  const auto [middle, face, edge, corner] = weights;
  for (std::int64_t k = from; k < to; ++k) {
    const double faces = b[k] + d[k] + e[k - 1] + e[k + 1] + f[k] + h[k];
    const double edges = a[k] + c[k] + g[k] + i[k] + b[k - 1] + b[k + 1] + d[k - 1] + d[k + 1] + f[k - 1] + f[k + 1] +
                         h[k - 1] + h[k + 1];
    const double corners = a[k - 1] + a[k + 1] + c[k - 1] + c[k + 1] + g[k - 1] + g[k + 1] + i[k - 1] + i[k + 1];
    next[k] = middle * e[k] + face * faces + edge * edges + corner * corners;
  }
}

}  // namespace kernels

// The examples' loops as functions of their own, so that a compiler reports on each of them.
#include "../../examples/kernels.hpp"

double heat_row(const double* north, const double* here, const double* south, double* next, std::int64_t cells) {
  return kernels::heat(north, here, south, next, 0, cells);
}

void row_of_7(const double* const rows[9], const kernels::Weights& weights, double* next, std::int64_t cells) {
  kernels::seven_points(rows, weights, next, 0, cells);
}

void row_of_27(const double* const rows[9], const kernels::Weights& weights, double* next, std::int64_t cells) {
  kernels::twenty_seven_points(rows, weights, next, 0, cells);
}

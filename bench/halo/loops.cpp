// The examples' loops over whole parts, built three times: with the information that what is written does not overlap
// what is read (LOOPS=restricted), with NEARFIELD_RESTRICT taken away (LOOPS=unrestricted), and not vectorised
// (LOOPS=scalar).
#include "loops.hpp"

#define kernels LOOPS
#include "../../examples/kernels.hpp"

namespace {

const LOOPS::Weights weights{0.4, 0.05, 0.02, 0.0075};

void nine_rows(const bench::Cells& from, std::int64_t i, std::int64_t j, const double* (&rows)[9]) {
  for (int n = 0; n < 9; ++n) rows[n] = from.row(i + n / 3 - 1, j + n % 3 - 1);
}

void heat(const bench::Cells& from, const bench::Cells& to) {
  for (std::int64_t i = 0; i < from.extents[0]; ++i)
    for (std::int64_t j = 0; j < from.extents[1]; ++j)
      LOOPS::heat(from.row(i, j - 1), from.row(i, j), from.row(i, j + 1), to.row(i, j), 0, from.extents[2]);
}

template <auto kernel>
void box(const bench::Cells& from, const bench::Cells& to) {
  const double* rows[9];
  for (std::int64_t i = 0; i < from.extents[0]; ++i)
    for (std::int64_t j = 0; j < from.extents[1]; ++j) {
      nine_rows(from, i, j, rows);
      kernel(rows, weights, to.row(i, j), 0, from.extents[2]);
    }
}

}  // namespace

namespace bench::LOOPS {
const Sweep sweeps[3] = {heat, box<::LOOPS::seven_points>, box<::LOOPS::twenty_seven_points>};
}

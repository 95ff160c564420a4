// Paper S0 (papers/S0/README.md), section V: a 3-point stencil on two ranks, A[i][j] + (A[i+1][j] + A[i][j+1]) / 4 into
// another array. In every iteration each rank sends its first row and receives its last row. listing-1 communicates
// before all updates; opt1 (listing 2) communicates after the update of the first row, which is sent; opt2 (listing 3)
// updates all rows but the last one in descending order, and communicates before the update of the last row, which
// needs the received row. The printed listings contain mistakes; here each rank sends to the other rank, and a quarter
// is 1 / 4, as the text intends.
#pragma once

#include <cstddef>
#include <string_view>

#include "scenario/scenario.hpp"
#include "scenario/size_ladder.hpp"

namespace nearfield {

inline constexpr const char* stencil_variants[] = {"listing-1", "opt1", "opt2"};
// The same loops without the exchange: controls that show differences between the loops that messages do not cause.
inline constexpr const char* stencil_controls[] = {"listing-1-alone", "opt1-alone", "opt2-alone"};
inline constexpr std::string_view no_exchange_suffix = "-alone";

// A sequence of rows to update: `num_rows` rows from `first` on. If `is_backward`, rows, and columns in each row, are
// updated in descending order.
struct StencilRows {
  std::size_t first, num_rows;
  bool is_backward;
  constexpr std::size_t row_at(std::size_t i) const { return first + (is_backward ? num_rows - 1 - i : i); }
};

// The order of an iteration: rows updated before the exchange, the exchange, and rows updated after the exchange.
struct StencilOrder {
  StencilRows rows_before_exchange, rows_after_exchange;
};

// Returns the order in which an iteration of a variant of the stencil updates and exchanges its rows. The probe and the
// simulator both use it. The last of `rows` rows is a ghost row: received, not updated.
// tests/mpi/test_rewrite_listings.py checks that `nearfield rewrite` transforms listing 1 to this order.
constexpr StencilOrder stencil_order(std::string_view variant, std::size_t rows) {
  const std::size_t num_rows_before = variant == "opt1" ? 1 : variant == "opt2" ? rows - 2 : 0;
  return {{0, num_rows_before, variant == "opt2"}, {num_rows_before, rows - 1 - num_rows_before, false}};
}

inline const ScenarioInfo stencil_info{
    "stencil",
    "A 3-point stencil of two ranks that communicates first, after its first row, or before its last one",
    Ranks::pair,
    {{"size_bytes", "a row, which is the message"},
     {"variant", "listing-1, opt1 or opt2; when measured also each with -alone, which leaves the exchange out"},
     {"rows", "of each rank; if absent, and when measured, as many as columns, at most 32"}},
    {{"iteration", "ns", Combine::slowest, "of the slower rank"}},
};

}  // namespace nearfield

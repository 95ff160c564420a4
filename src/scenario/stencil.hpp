// S0, section V: a 3-point stencil on two ranks, A[i][j] + (A[i+1][j] + A[i][j+1]) / 4 into another array. In every
// iteration each rank sends its first row and receives its last row. listing-1 communicates before all updates; opt1
// (listing 2) after the update of the first row, which is sent; opt2 (listing 3) goes backward and communicates before
// the update of the last row, which needs the received row. Where the printed listings disagree, their
// intention is implemented: each rank sends to the other rank, and a quarter is 1 / 4.
#pragma once

#include <cstddef>
#include <string_view>

#include "scenario/scenario.hpp"
#include "scenario/size_ladder.hpp"

namespace nearfield {

inline constexpr const char* stencil_variants[] = {"listing-1", "opt1", "opt2"};
// The same loops without the exchange: controls, whose differences no message causes.
inline constexpr const char* stencil_controls[] = {"listing-1-alone", "opt1-alone", "opt2-alone"};
inline constexpr std::string_view alone = "-alone";

// A sequence of rows to update: `count` rows from `first` on. If `backward`, the last row comes first, and in each row
// the last column.
struct StencilRows {
  std::size_t first, count;
  bool backward;
  constexpr std::size_t at(std::size_t i) const { return first + (backward ? count - 1 - i : i); }
};

// The order of an iteration: rows updated before the exchange, the exchange, and rows updated after the exchange.
struct StencilOrder {
  StencilRows before, after;
};

// Returns the order of an iteration of a variant, which the probe and the simulator follow;
// tests/mpi/test_rewrite_listings.py checks that the output of `nearfield rewrite` for listing 1 does, too. The last of
// `rows` rows is received, not updated.
constexpr StencilOrder stencil_order(std::string_view variant, std::size_t rows) {
  const std::size_t before = variant == "opt1" ? 1 : variant == "opt2" ? rows - 2 : 0;
  return {{0, before, variant == "opt2"}, {before, rows - 1 - before, false}};
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

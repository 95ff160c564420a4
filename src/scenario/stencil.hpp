// S0, section V: a 3-point stencil of two ranks, A[i][j] + (A[i+1][j] + A[i][j+1]) / 4 into another array, which sends
// the first row and receives the last one in every iteration. listing-1 communicates first; opt1 (listing 2) after the
// first row, which is sent; opt2 (listing 3) goes backward and communicates before the last row, which needs the
// received one. Where the listings disagree, their intention is implemented: each rank sends to the other one, and a
// quarter is 1 / 4.
#pragma once

#include <cstddef>
#include <string_view>

#include "scenario/scenario.hpp"
#include "scenario/size_ladder.hpp"

namespace nearfield {

inline constexpr const char* stencil_variants[] = {"listing-1", "opt1", "opt2"};
// The same loops without the exchange: what they gain no message has to do with.
inline constexpr const char* stencil_controls[] = {"listing-1-alone", "opt1-alone", "opt2-alone"};
inline constexpr std::string_view alone = "-alone";

// Rows that are updated in order: `count` from `first` on; if `backward`, the last row comes first, and the last column
// of each.
struct StencilRows {
  std::size_t first, count;
  bool backward;
  constexpr std::size_t at(std::size_t i) const { return first + (backward ? count - 1 - i : i); }
};

// The steps of an iteration: the rows before, the exchange, the rows after.
struct StencilOrder {
  StencilRows before, after;
};

// Both backends follow this order, and tests/mpi/test_rewrite_listings.py observes that the output of `nearfield
// rewrite` for listing 1 does, too. The last of `rows` rows is not updated but received.
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

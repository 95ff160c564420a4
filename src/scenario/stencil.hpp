// S0, section V: a 3-point stencil of two ranks, A[i][j] + (A[i+1][j] + A[i][j+1]) / 4 into another array, with the
// first row sent and the last one received in every iteration. listing-1 communicates first; opt1 (listing 2) after the
// first row, which is sent; opt2 (listing 3) goes backward and communicates before the last row, which needs what was
// received. What is meant is done where the listings disagree: each rank sends to the other one, and a quarter is 1 / 4.
#pragma once

#include "scenario/scenario.hpp"
#include "scenario/size_ladder.hpp"

namespace nearfield {

inline constexpr const char* stencil_variants[] = {"listing-1", "opt1", "opt2"};

inline const ScenarioInfo stencil_info{
    "stencil",
    "A 3-point stencil of two ranks that communicates first, after its first row, or before its last one",
    Ranks::pair,
    {{"size_bytes", "a row, which is the message"},
     {"variant", "listing-1, opt1 or opt2"},
     {"rows", "of each rank; if absent, and when measured, as many as columns, at most 32"}},
    {{"iteration", "ns", Combine::slowest, "of the slower rank"}},
};

}  // namespace nearfield

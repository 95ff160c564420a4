// SCN2 of paper S0 (papers/S0/README.md), section II.B: the time to read the message buffer right after MPI_Send or
// MPI_Recv. Before the call, the buffer was in the caches (state preloaded) or not (invalid). base-invalid and
// base-preloaded are the same reads without a call.
#pragma once

#include "scenario/scenario.hpp"
#include "scenario/size_ladder.hpp"

namespace nearfield {

inline constexpr const char* pollution_states[] = {"invalid", "preloaded", "base-invalid", "base-preloaded"};

inline std::vector<std::int64_t> pollution_sizes(const SizeChoice& choice) {
  return size_ladder(choice, 64, 2 * choice.llc_bytes);
}

inline const ScenarioInfo pollution_info{
    "pollution",
    "Reading the message buffer right after Send or Recv, against reading it without a call",
    Ranks::pair,
    {{"size_bytes", "message size"},
     {"state", "before the call: invalid, preloaded; without a call: base-invalid, base-preloaded"}},
    {{"traverse", "ns", Combine::sides, "reading the whole buffer once, in order"}},
};

}  // namespace nearfield

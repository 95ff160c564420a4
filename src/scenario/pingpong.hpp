// SCN1 of paper S0 (papers/S0/README.md), section II.A: MPI_Send and MPI_Recv timed separately, with both ranks'
// message buffers in a known cache state, which is the same on both ranks. Each rank has a send buffer and a receive
// buffer. The state `reused` is that of other benchmarks: round trips follow each other directly, and each uses the
// buffers in the state in which the previous round trip left them.
#pragma once

#include <algorithm>

#include "scenario/scenario.hpp"
#include "scenario/size_ladder.hpp"

namespace nearfield {

inline constexpr const char* pingpong_states[] = {"invalid", "exclusive", "modified", "reused"};

/// Returns the number of successive round trips in one repetition of `reused`: enough to make the cost of reading the
/// clock negligible.
constexpr int pingpong_round_trips(std::int64_t size_bytes) {
  return static_cast<int>(std::clamp<std::int64_t>(65536 / size_bytes, 1, 32));
}

/// Returns message sizes from 1 B to beyond all caches, with points on both sides of each protocol switch.
inline std::vector<std::int64_t> pingpong_sizes(const SizeChoice& choice,
                                                const std::vector<std::int64_t>& protocol_switch_bytes) {
  return dense_size_ladder(choice, protocol_switch_bytes, 1, 4 * choice.llc_bytes);
}

inline const ScenarioInfo pingpong_info{
    "pingpong",
    "Send and Recv timed apart, message buffers in a known cache state",
    Ranks::pair,
    {{"size_bytes", "message size"},
     {"state", "of the send and receive buffers: invalid, exclusive, modified, or reused (as the last left them)"}},
    {{"send", "ns", Combine::sides, "MPI_Send, at the rank that sends first and at the one that answers"},
     {"receive", "ns", Combine::sides, "MPI_Recv, the wait for the message included"},
     {"half_round_trip", "ns", Combine::root, "half of Send + Recv at the first sender"}},
};

}  // namespace nearfield

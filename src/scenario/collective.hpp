// Collective operations over all ranks, for claim S2.4 (papers/S2/claims.toml) and paper S4 (papers/S4/README.md). A
// repetition ends when the slowest rank has finished.
#pragma once

#include <algorithm>

#include "scenario/scenario.hpp"
#include "scenario/size_ladder.hpp"

namespace nearfield {

/// The operations that the probe and the simulator measure by default.
inline constexpr const char* collective_operations[] = {"bcast", "allreduce", "allgather", "alltoall"};

/// Returns the message sizes for collectives: multiples of 8 bytes, the size of an element that allreduce adds.
inline std::vector<std::int64_t> collective_sizes(const SizeChoice& choice) {
  auto sizes = size_ladder(choice, 8, std::max<std::int64_t>(1 << 20, choice.llc_bytes / 8));
  for (auto& size : sizes) size = std::max<std::int64_t>(8, size / 8 * 8);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

inline const ScenarioInfo collective_info{
    "collective",
    "Collective operations over all ranks",
    Ranks::all,
    {{"operation", "bcast, allreduce, allgather, alltoall, ..."},
     {"size_bytes", "bcast, reduce, allreduce: of the message; others: what one rank contributes (to each other rank)"},
     {"ranks", "how many take part"}},
    {{"time", "ns", Combine::slowest, "until the slowest rank returned"}},
};

}  // namespace nearfield

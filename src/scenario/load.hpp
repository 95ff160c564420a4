// Paper S3 (papers/S3/README.md), section 3: a ping-pong of two ranks while all other ranks run MPI_Alltoall of growing
// size.
#pragma once

#include "scenario/scenario.hpp"
#include "scenario/size_ladder.hpp"

namespace nearfield {

inline std::vector<std::int64_t> load_message_sizes(const SizeChoice& choice) {
  if (!choice.sizes.empty()) return choice.sizes;
  if (choice.tier == "quick") return {8, 4096, 64 << 10, 1 << 20};
  return {8, 1024, 4096, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20};
}

inline std::vector<std::int64_t> background_load_sizes(const SizeChoice& choice) {
  if (choice.tier == "quick") return {0, 1024, 64 << 10, 1 << 20};
  return {0, 1024, 16 << 10, 64 << 10, 256 << 10, 1 << 20};
}

inline const ScenarioInfo load_info{
    "load",
    "A ping-pong while the other ranks run MPI_Alltoall of growing size",
    Ranks::pair_and_background,
    {{"size_bytes", "message size of the ping-pong"},
     {"load_bytes", "bytes each background rank sends to each other per MPI_Alltoall; 0: they are idle"}},
    {{"half_round_trip", "ns", Combine::root, "of the pair"}},
};

}  // namespace nearfield

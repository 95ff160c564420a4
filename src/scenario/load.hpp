// S3, section 3: a ping-pong while the other ranks run MPI_Alltoall of growing size among themselves.
#pragma once

#include "scenario/scenario.hpp"

namespace nearfield {

inline const ScenarioInfo load_info{
    "load",
    "A ping-pong while the other ranks run MPI_Alltoall of growing size",
    Ranks::pair_and_background,
    {{"size_bytes", "message size of the ping-pong"},
     {"load_bytes", "bytes each background rank sends to each other per MPI_Alltoall; 0: they are idle"}},
    {{"half_round_trip", "ns", Combine::root, "of the pair"}},
};

}  // namespace nearfield

// As `in-place`, in memory from MPI_Win_allocate_shared: S1's own way, and for systems on which processes share no
// memory but through MPI.
#include "halo/protocol.hpp"

namespace nearfield::halo {

extern const ProtocolSpec window_protocol;
const ProtocolSpec window_protocol{
    .name = "window",
    .summary = "as in-place, in memory from MPI_Win_allocate_shared",
    .make = [](Surroundings& around, Move move) { return direct_protocol.make(around, std::move(move)); },
    .shared_only = true,
    .needs_arrays = true,
    .in_place = true,
    .backing = Backing::window};

}  // namespace nearfield::halo

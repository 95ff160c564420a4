// As `in-place`, in memory from MPI_Win_allocate_shared: S1's own way, and for systems on which processes share no
// memory but through MPI.
#include "halo/protocol.hpp"

namespace nearfield::halo {

extern const ProtocolSpec window_protocol;
const ProtocolSpec window_protocol{
    "window",
    "as in-place, in memory from MPI_Win_allocate_shared",
    true,
    Backing::window,
    true,
    true,
    nullptr,
    nullptr,
    [](Surroundings& around, Move move) { return direct_protocol.make(around, std::move(move)); }};

}  // namespace nearfield::halo

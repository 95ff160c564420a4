// Same as `in-place`, but in memory from MPI_Win_allocate_shared: the method of S1, and for systems on which processes
// can share memory only through MPI.
#include "halo/protocol.hpp"

namespace nearfield::halo {

extern const ProtocolSpec window_protocol;
const ProtocolSpec window_protocol{
    .name = "window",
    .summary = "as in-place, in memory from MPI_Win_allocate_shared",
    .make = [](ExchangeContext& around, ExchangePlan move) { return direct_protocol.make(around, std::move(move)); },
    .shared_only = true,
    .needs_arrays = true,
    .in_place = true,
    .backing = Backing::window};

}  // namespace nearfield::halo

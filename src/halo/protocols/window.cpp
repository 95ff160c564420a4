// Same as `in-place`, but in memory from MPI_Win_allocate_shared: the method of paper S1 (papers/S1/README.md), also
// useful on systems on which processes can share memory only through MPI.
#include "halo/protocol.hpp"

namespace nearfield::halo {

extern const ProtocolSpec window_protocol;
const ProtocolSpec window_protocol{
    .name = "window",
    .summary = "as in-place, in memory from MPI_Win_allocate_shared",
    .make = [](ExchangeContext& context, ExchangePlan plan) { return direct_protocol.make(context, std::move(plan)); },
    .is_intra_node_only = true,
    .needs_arrays = true,
    .reads_in_place = true,
    .backing = SegmentBacking::window};

}  // namespace nearfield::halo

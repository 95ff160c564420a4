// A node's ranks share one array: cells of neighbours are read where they are (S1, section III). Nothing moves but
// signals; only the periodic edge of a node is copied, as `direct` does.
#include "halo/protocol.hpp"

namespace nearfield::halo {

const ProtocolSpec in_place_protocol{
    .name = "in-place",
    .summary = "neighbours on the node read each other's cells where they are",
    .make = [](Surroundings& around, Move move) { return direct_protocol.make(around, std::move(move)); },
    .shared_only = true,
    .needs_arrays = true,
    .in_place = true};

}  // namespace nearfield::halo

// A node's ranks share one array: cells of neighbours are read where they are (S1, section III). Nothing moves but
// signals; only the periodic edge of a node is copied, as `direct` does.
#include "halo/protocol.hpp"

namespace nearfield::halo {

const ProtocolSpec in_place_protocol{
    "in-place",
    "neighbours on the node read each other's cells where they are",
    true,
    Backing::own,
    true,
    true,
    nullptr,
    nullptr,
    [](Surroundings& around, Move move) { return direct_protocol.make(around, std::move(move)); }};

}  // namespace nearfield::halo

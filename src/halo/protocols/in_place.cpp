// A node's ranks share one array, in which neighbours' cells are read in place (S1, section III). Only signals are
// exchanged; only the periodic edge of a node is copied, as by `direct`.
#include "halo/protocol.hpp"

namespace nearfield::halo {

const ProtocolSpec in_place_protocol{
    .name = "in-place",
    .summary = "neighbours on the node read each other's cells where they are",
    .make = [](ExchangeContext& around, Move move) { return direct_protocol.make(around, std::move(move)); },
    .shared_only = true,
    .needs_arrays = true,
    .in_place = true};

}  // namespace nearfield::halo

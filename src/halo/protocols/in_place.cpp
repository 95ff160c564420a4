// The ranks of a node share one array and read cells of neighbours in place (S1, section III). They exchange signals
// only; ghost cells at a periodic edge inside a node are copied, as by `direct`.
#include "halo/protocol.hpp"

namespace nearfield::halo {

const ProtocolSpec in_place_protocol{
    .name = "in-place",
    .summary = "neighbours on the node read each other's cells where they are",
    .make = [](ExchangeContext& around, ExchangePlan move) { return direct_protocol.make(around, std::move(move)); },
    .shared_only = true,
    .needs_arrays = true,
    .in_place = true};

}  // namespace nearfield::halo

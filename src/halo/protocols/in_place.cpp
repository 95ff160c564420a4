// The ranks of a node share one array and read cells of neighbours in place (paper S1, papers/S1/README.md, section
// III). They exchange only signals; ghost cells at a periodic edge inside a node are copied, as in `direct`.
#include "halo/protocol.hpp"

namespace nearfield::halo {

const ProtocolSpec in_place_protocol{
    .name = "in-place",
    .summary = "neighbours on the node read each other's cells where they are",
    .make = [](ExchangeContext& context, ExchangePlan plan) { return direct_protocol.make(context, std::move(plan)); },
    .is_intra_node_only = true,
    .needs_arrays = true,
    .reads_in_place = true};

}  // namespace nearfield::halo

// Ends the program if a node has died while ranks wait for it in an exchange (base/job_watch.hpp).
#pragma once

#include "halo/node.hpp"

namespace nearfield::halo {

/// Watches the nodes of the first grid that spans several, until MPI_Finalize. Collective over node.comm. Does nothing
/// for later grids.
void watch_nodes_of(const Node& node);

}  // namespace nearfield::halo

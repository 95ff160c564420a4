// Ends the program if a node has died while ranks wait for it in an exchange (base/job_watch.hpp).
#pragma once

#include "halo/node.hpp"

namespace nearfield::halo {

/// Watches the nodes of the grid until MPI_Finalize, if it is the first grid that spans several nodes; does nothing for
/// later grids. Collective over node.comm.
void watch_nodes_of_grid(const Node& node);

}  // namespace nearfield::halo

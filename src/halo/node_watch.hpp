// Ends the program if a node has died whose ranks a grid needs, because MPI would wait for them for minutes or forever.
#pragma once

#include "halo/node.hpp"

namespace nearfield::halo {

/// Watches the nodes of the first grid that spans several, until MPI_Finalize. Collective over node.comm. Does nothing
/// for later grids.
void watch_nodes_of(const Node& node);

/// States that an exchange has completed. The program is ended only if none completes while a node is silent.
void note_exchange();

}  // namespace nearfield::halo

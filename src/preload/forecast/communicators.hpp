// Determines which ranks of a communicator are on the node of this process.
#pragma once

#include <mpi.h>

#include "preload/forecast/format.hpp"

namespace nearfield::forecast {

struct CommunicatorInfo {
  CommunicatorInfo* next;  // next in the list of freed objects
  std::uint64_t key;
  int size;  // number of ranks; of the remote group for intercommunicators
  bool is_intercommunicator;
  int num_destinations;   // number of neighbours to which this rank sends; 0 without a topology
  PeerLocation location;  // where the other ranks are
  unsigned char is_local[];
};

// Determines which ranks of MPI_COMM_WORLD are on this node, by an MPI_Allgather of a hash of the host name, right
// after MPI_Init. Collective over MPI_COMM_WORLD. Returns the number of ranks on this node.
int find_ranks_on_node(const char* host);
// Returns the properties of a communicator; null if the handle is invalid, or if there are too many communicators.
const CommunicatorInfo* find_or_add_communicator(MPI_Comm comm);
// Removes the communicator from the table. Called before the handle becomes invalid.
void remove_communicator(MPI_Comm comm);

inline PeerLocation location_of(const CommunicatorInfo* comm, int peer) {
  if (!comm || peer < 0 || peer >= comm->size) return PeerLocation::this_node;
  return comm->is_local[peer] ? PeerLocation::this_node : PeerLocation::other_nodes;
}

}  // namespace nearfield::forecast

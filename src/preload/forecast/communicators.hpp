// Determines which ranks of a communicator are on this node.
#pragma once

#include <mpi.h>

#include "preload/forecast/format.hpp"

namespace nearfield::forecast {

struct Communicator {
  Communicator* next;  // in the list of freed ones
  std::uint64_t key;
  int size;  // of the remote group, for intercommunicators
  bool is_between_groups;
  int destinations;  // neighbours to which this rank sends; 0 without a topology
  Place place;       // of its other ranks
  unsigned char is_local[];
};

// Compares the host names of all ranks, right after MPI_Init; collective. Returns the number of ranks on this node.
int begin_communicators(const char* host);
// Returns what is known of the communicator; null if it is invalid, or if there are too many.
const Communicator* known(MPI_Comm comm);
// Called before the handle becomes invalid.
void forget(MPI_Comm comm);

inline Place place_of(const Communicator* comm, int peer) {
  if (!comm || peer < 0 || peer >= comm->size) return Place::node;
  return comm->is_local[peer] ? Place::node : Place::others;
}

}  // namespace nearfield::forecast

// Which ranks of a communicator are on this node.
#pragma once

#include <mpi.h>

#include "forecast/format.hpp"

namespace nearfield::forecast {

struct Communicator {
  Communicator* next;  // of those that were freed
  std::uint64_t key;
  int size;  // of the other group, between two groups
  bool is_between_groups;
  int destinations;  // neighbours to which this rank sends; 0 without a topology
  Place place;       // of its other ranks
  unsigned char is_here[];
};

// Compares the names of the hosts of all ranks, right after MPI_Init; all ranks must call it. Returns how many ranks are
// on this node.
int begin_communicators(const char* host);
// Returns what is known of it; null if it is none, or if there are too many.
const Communicator* known(MPI_Comm comm);
// The handle is about to become invalid.
void forget(MPI_Comm comm);

inline Place place_of(const Communicator* comm, int peer) {
  if (!comm || peer < 0 || peer >= comm->size) return Place::node;
  return comm->is_here[peer] ? Place::node : Place::others;
}

}  // namespace nearfield::forecast

// The ranks that neighbourhood collectives of a communicator reach.
#pragma once

#include <mpi.h>

#include "trace/stream/events.hpp"

namespace nearfield::observe {

// Fills in the sources and destinations, in the block order of neighbourhood collectives, if there is a topology.
void add_neighbours(MPI_Comm comm, stream::Communicator& event);

// Returns the value that streams use for a rank or a wildcard of MPI.
constexpr std::int64_t peer_of(int rank) {
  return rank == MPI_ANY_SOURCE ? stream::any : rank == MPI_PROC_NULL ? stream::proc_null : rank;
}

}  // namespace nearfield::observe

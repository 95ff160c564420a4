// The ranks with which neighbourhood collectives of a communicator communicate.
#pragma once

#include <mpi.h>

#include "trace/stream/events.hpp"

namespace nearfield::observe {

// If the communicator has a topology, sets the event's sources and destinations, in the block order of neighbourhood
// collectives.
void add_neighbors(MPI_Comm comm, stream::Communicator& event);

// Converts a rank or a wildcard of MPI into the value that streams use.
constexpr std::int64_t to_stream_rank(int rank) {
  return rank == MPI_ANY_SOURCE ? stream::any_source_or_tag : rank == MPI_PROC_NULL ? stream::proc_null : rank;
}

}  // namespace nearfield::observe

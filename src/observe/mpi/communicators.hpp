// The communicators that the program has. Members agree on the context of a new one through a broadcast on it; only for
// MPI_Comm_idup, which must not wait for others, is it computed from its parent's.
#pragma once

#include <mpi.h>

#include "stream/events.hpp"

namespace nearfield::observe {

struct KnownCommunicator {
  stream::Communicator event;
  bool is_between_groups = false;  // an intercommunicator
  int rank = 0;
  int size = 0;               // of the own group
  stream::Number copies = 0;  // made by MPI_Comm_idup
};

// Writes the events of MPI_COMM_WORLD and MPI_COMM_SELF. Is called once, in MPI_Init.
void begin_communicators();

// Returns what is known of a communicator. One that the wrappers did not see being made is `refused`.
const KnownCommunicator& known(MPI_Comm comm);

inline stream::Number number_of(MPI_Comm comm) { return known(comm).event.communicator; }

// Is called on all members when a communicator was made, except by MPI_Comm_idup; MPI_COMM_NULL is ignored.
void made(MPI_Comm comm);

// Reserves the context of the next copy by MPI_Comm_idup. Is called on all members in the same order.
stream::Number context_of_copy(MPI_Comm parent);
// The copy is complete on this member.
void made_copy(MPI_Comm comm, stream::Number context);

void renamed(MPI_Comm comm);
void freed(MPI_Comm comm);

}  // namespace nearfield::observe

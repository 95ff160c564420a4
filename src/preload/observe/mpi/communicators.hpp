// The program's communicators. Members agree on the context of a new one by a broadcast on it. Only for MPI_Comm_idup,
// which must not block, is the context computed from that of the parent.
#pragma once

#include <mpi.h>

#include "trace/stream/events.hpp"

namespace nearfield::observe {

struct KnownCommunicator {
  stream::Communicator event;
  bool is_between_groups = false;  // an intercommunicator
  int rank = 0;
  int size = 0;               // of the local group
  stream::Number copies = 0;  // made by MPI_Comm_idup
};

// Writes the events of MPI_COMM_WORLD and MPI_COMM_SELF. Called once, in MPI_Init.
void begin_communicators();

// Returns what is known of a communicator. If no wrapper saw its creation, the stream is marked as unsupported.
const KnownCommunicator& known(MPI_Comm comm);

inline stream::Number number_of(MPI_Comm comm) { return known(comm).event.communicator; }

// Called on all members of a new communicator, except by MPI_Comm_idup; MPI_COMM_NULL is ignored.
void record_new(MPI_Comm comm);

// Reserves the context of the next copy by MPI_Comm_idup. Called on all members in the same order.
stream::Number context_of_copy(MPI_Comm parent);
// Records a copy that is complete on this member.
void record_copy(MPI_Comm comm, stream::Number context);

void record_name(MPI_Comm comm);
void forget_communicator(MPI_Comm comm);

}  // namespace nearfield::observe

// The program's communicators. Each communicator has a context, a number that is unique in the job and equal on all
// members. The members agree on the context of a new communicator by an MPI_Bcast on it. MPI_Comm_idup must not block,
// so for its copies the context is computed from the context of the parent.
#pragma once

#include <mpi.h>

#include "trace/stream/events.hpp"

namespace nearfield::observe {

struct RecordedCommunicator {
  stream::Communicator event;
  bool is_intercommunicator = false;  // an intercommunicator
  int rank = 0;
  int size = 0;                   // size of the local group
  stream::Number num_copies = 0;  // number of copies made by MPI_Comm_idup
};

// Writes the Communicator events of MPI_COMM_WORLD and MPI_COMM_SELF. Called once, in MPI_Init.
void record_predefined_communicators();

// Returns the recorded properties of a communicator. If no wrapper has seen the creation of the communicator, marks the
// stream as unsupported.
const RecordedCommunicator& find_or_add_communicator(MPI_Comm comm);

inline stream::Number communicator_number(MPI_Comm comm) { return find_or_add_communicator(comm).event.communicator; }

// Writes the Communicator event of a new communicator; ignores MPI_COMM_NULL. Called on all members, except for copies
// by MPI_Comm_idup.
void record_new_communicator(MPI_Comm comm);

// Computes the context of the next copy of `parent` by MPI_Comm_idup. Must be called on all members in the same order.
stream::Number compute_context_of_copy(MPI_Comm parent);
// Writes the Communicator event of a copy by MPI_Comm_idup that is complete on this rank.
void record_communicator_copy(MPI_Comm comm, stream::Number context);

void record_communicator_name(MPI_Comm comm);
void remove_communicator(MPI_Comm comm);

}  // namespace nearfield::observe

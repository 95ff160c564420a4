// Converts the arguments of MPI calls into send and receive events.
#pragma once

#include "preload/observe/mpi/communicators.hpp"
#include "preload/observe/mpi/layouts.hpp"
#include "preload/observe/mpi/neighbours.hpp"

namespace nearfield::observe {

template <class Count>
stream::Send send_event(stream::Mode mode, const void* buffer, Count count, MPI_Datatype type, int destination, int tag,
                        MPI_Comm comm) {
  return {0, mode, communicator_number(comm), peer_of(destination), tag, data_of_buffer(buffer, count, type)};
}

// Marks the stream as unsupported if the receive overtakes a message that an earlier matched probe (MPI_Mprobe) has
// found: receives with the same source and tag match messages in order, which receives of matched messages need not
// preserve. `order` is the number of the receive's own matched probe, if it has one.
void check_receive_order(const stream::Receive& receive, stream::Number order = ~stream::Number{0});

template <class Count>
stream::Receive receive_event(const void* buffer, Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm) {
  const std::int64_t wanted = tag == MPI_ANY_TAG ? stream::any : tag;
  const stream::Receive event{0, communicator_number(comm), peer_of(source), wanted,
                              data_of_buffer(buffer, count, type)};
  check_receive_order(event);
  return event;
}

}  // namespace nearfield::observe

// Converts the arguments of MPI calls into send and receive events.
#pragma once

#include "preload/observe/mpi/communicators.hpp"
#include "preload/observe/mpi/layouts.hpp"
#include "preload/observe/mpi/neighbours.hpp"

namespace nearfield::observe {

template <class Count>
stream::Send make_send_event(stream::SendMode mode, const void* buffer, Count count, MPI_Datatype type, int destination,
                             int tag, MPI_Comm comm) {
  return {0, mode, communicator_number(comm), to_stream_rank(destination), tag, describe_buffer(buffer, count, type)};
}

// Marks the stream as unsupported if the receive overtakes a message that an earlier matched probe (MPI_Mprobe) has
// found. Receives with the same source and tag match messages in order, which receives of matched messages need not
// preserve. `matched_order` is the number of the receive's own matched probe, if it has one.
void check_receive_order(const stream::Receive& receive, stream::Number matched_order = ~stream::Number{0});

template <class Count>
stream::Receive make_receive_event(const void* buffer, Count count, MPI_Datatype type, int source, int tag,
                                   MPI_Comm comm) {
  const std::int64_t stream_tag = tag == MPI_ANY_TAG ? stream::any_source_or_tag : tag;
  const stream::Receive event{0, communicator_number(comm), to_stream_rank(source), stream_tag,
                              describe_buffer(buffer, count, type)};
  check_receive_order(event);
  return event;
}

}  // namespace nearfield::observe

// Messages of a rank whose simulation decides (asking.hpp): the program holds a handle that stands for each, and the MPI
// library's own request is here. Sends are done from copies, so that the program need not wait for the library to be done
// with them.
#pragma once

#include <mpi.h>

#include <functional>
#include <memory>

#include "observe/mpi/messages.hpp"
#include "observe/mpi/requests.hpp"

namespace nearfield::observe {

struct Held {
  stream::Number number = 0;
  bool begun = false, over = false;  // in the MPI library
  MPI_Request real = MPI_REQUEST_NULL;
  int error = MPI_SUCCESS;  // of beginning it
  MPI_Status status;        // once it is over
  std::function<int(int source, int tag, MPI_Request* real)> begin;
};

// Returns a handle for the program, of nothing.
MPI_Request new_handle();
void give_handle(MPI_Request handle);

// Begins the receive now, or, if time decides which message it gets, later.
std::shared_ptr<Held> hold(stream::Receive event, bool from_any,
                           std::function<int(int source, int tag, MPI_Request* real)> begin, int source, int tag);
// One that the MPI library has begun already.
std::shared_ptr<Held> hold_begun(stream::Receive event, MPI_Request real);
// Begins the receive of this number, whose message is known now.
void begin_held(stream::Number number, int source, int tag);
// Returns whether there are receives that have not been begun.
bool any_unbegun();
// Returns when the message is over; `status` may be null.
int finish(Held& held, MPI_Status* status);

// Sends a copy of the data.
std::shared_ptr<Held> hold_copy(stream::Send event, const void* buffer, MPI_Count count, MPI_Datatype type,
                                int destination, int tag, MPI_Comm comm);
// Waits until all copies are sent, and frees the handles. To be called in MPI_Finalize.
void finish_copies();

// Returns a request, with a handle for the program, that stands for the message.
inline Request as_request(std::shared_ptr<Held> held, bool is_receive) {
  Request request;
  request.number = held->number;
  request.is_receive = is_receive;
  request.held = std::move(held);
  return request;
}

template <class Count>
std::shared_ptr<Held> hold_send(stream::Mode mode, const void* buffer, Count count, MPI_Datatype type, int destination,
                                int tag, MPI_Comm comm) {
  return hold_copy(send_event(mode, buffer, count, type, destination, tag, comm), buffer, count, type, destination, tag,
                   comm);
}

// `irecv` is the MPI library's own function.
template <class Irecv, class Count>
std::shared_ptr<Held> hold_receive(Irecv irecv, void* buffer, Count count, MPI_Datatype type, int source, int tag,
                                   MPI_Comm comm) {
  const bool from_any = source != MPI_PROC_NULL && (source == MPI_ANY_SOURCE || tag == MPI_ANY_TAG);
  auto begin = [=](int its_source, int its_tag, MPI_Request* real) {
    return irecv(buffer, count, type, its_source, its_tag, comm, real);
  };
  return hold(receive_event(buffer, count, type, source, tag, comm), from_any, std::move(begin), source, tag);
}

}  // namespace nearfield::observe

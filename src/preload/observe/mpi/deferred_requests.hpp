// Deferred requests of a live simulation (live_client.hpp): the program gets a placeholder handle; the real MPI_Request
// is kept here and may be posted later. Sends are buffered, so the program need not wait for the library to complete
// them.
#pragma once

#include <mpi.h>

#include <functional>
#include <memory>

#include "preload/observe/mpi/messages.hpp"
#include "preload/observe/mpi/requests.hpp"

namespace nearfield::observe {

struct DeferredRequest {
  stream::Number number = 0;
  bool posted = false, completed = false;  // of the real request
  MPI_Request real = MPI_REQUEST_NULL;
  int error = MPI_SUCCESS;  // of posting it
  MPI_Status status;        // once it has completed
  std::function<int(int source, int tag, MPI_Request* real)> post;
};

// Returns a placeholder handle for the program.
MPI_Request acquire_placeholder();
void release_placeholder(MPI_Request handle);

// Posts the receive now, or later if it may match different messages.
std::shared_ptr<DeferredRequest> post_or_defer(stream::Receive event, bool from_any,
                                               std::function<int(int source, int tag, MPI_Request* real)> post,
                                               int source, int tag);
// Adopts a receive that the MPI library has posted already.
std::shared_ptr<DeferredRequest> adopt_posted(stream::Receive event, MPI_Request real);
// Posts the receive with this number, whose message is known now.
void post_deferred(stream::Number number, int source, int tag);
// Returns whether there are receives that have not been posted.
bool has_deferred();
// Blocks until the message has completed; `status` may be null.
int complete_request(DeferredRequest& held, MPI_Status* status);

// Sends a copy of the data.
std::shared_ptr<DeferredRequest> buffered_send(stream::Send event, const void* buffer, MPI_Count count,
                                               MPI_Datatype type, int destination, int tag, MPI_Comm comm);
// Waits until all buffered sends have completed, and frees the placeholders. To be called in MPI_Finalize.
void flush_buffered_sends();

// Returns a request, with a placeholder handle, for the message.
inline Request placeholder_for(std::shared_ptr<DeferredRequest> held, bool is_receive) {
  Request request;
  request.number = held->number;
  request.is_receive = is_receive;
  request.held = std::move(held);
  return request;
}

template <class Count>
std::shared_ptr<DeferredRequest> send_buffered(stream::Mode mode, const void* buffer, Count count, MPI_Datatype type,
                                               int destination, int tag, MPI_Comm comm) {
  return buffered_send(send_event(mode, buffer, count, type, destination, tag, comm), buffer, count, type, destination,
                       tag, comm);
}

// `irecv` is the MPI library's own function.
template <class Irecv, class Count>
std::shared_ptr<DeferredRequest> post_or_defer_receive(Irecv irecv, void* buffer, Count count, MPI_Datatype type,
                                                       int source, int tag, MPI_Comm comm) {
  const bool from_any = source != MPI_PROC_NULL && (source == MPI_ANY_SOURCE || tag == MPI_ANY_TAG);
  auto post = [=](int matched_source, int matched_tag, MPI_Request* real) {
    return irecv(buffer, count, type, matched_source, matched_tag, comm, real);
  };
  return post_or_defer(receive_event(buffer, count, type, source, tag, comm), from_any, std::move(post), source, tag);
}

}  // namespace nearfield::observe

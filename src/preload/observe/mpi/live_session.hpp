// The session of a rank with its live simulation. For each nondeterministic MPI outcome (the message that a wildcard
// receive matches, the result of a probe or test, the request that MPI_Waitany returns) the rank queries the simulator,
// blocks until the reply arrives, and makes the MPI library produce the same outcome. The program gets placeholder
// handles for its sends and receives, which pass through these states:
//
//   receive_or_defer()    -> deferred if it may match different messages or an earlier one is deferred, else posted
//   deferred              -- the simulation reports the matching message --> posted
//   add_posted_receive()  -> posted
//   posted                -- complete_message(), when the MPI library has completed it --> completed
//   send_buffered()       -> completed, as the program sees it; the MPI library sends a copy of the data
//
// Deadlock freedom:
// - The stream is flushed before the rank blocks, so the simulator never waits for a rank that waits for a reply.
// - Sends are buffered: the simulated MPI may proceed where the real MPI would wait for the receiver.
// - A receive that may match different messages is posted when the simulation has determined its message. Later
//   receives are deferred as well, because they must not overtake it. The simulation sends the match as soon as it is
//   known, whatever the rank does at that time; while receives are deferred, no rank blocks in the MPI library.
// - A rank that waits for a reply polls the MPI library to drive its progress.
#pragma once

#include <mpi.h>

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "preload/mpi/handles.hpp"
#include "preload/observe/mpi/call.hpp"
#include "preload/observe/mpi/messages.hpp"
#include "preload/observe/mpi/requests.hpp"

namespace nearfield::observe {

using ReplyWords = std::vector<std::int64_t>;

// The state of a send or receive for which the program has a placeholder handle.
struct DeferredRequest {
  stream::Number number = 0;
  bool is_posted = false, is_completed = false;  // state of the MPI library's request
  MPI_Request library_request = MPI_REQUEST_NULL;
  int post_error = MPI_SUCCESS;  // result of posting the MPI library's request
  MPI_Status status;             // valid after completion
  std::function<int(int source, int tag, MPI_Request* library_request)> post_receive;
};
using DeferredRequestPointer = std::shared_ptr<DeferredRequest>;

class LiveSession {
 public:
  // Sends a query to the simulator and blocks until the reply arrives. Returns the reply without its first two words,
  // which are its kind and length (stream/live_reply.hpp).
  ReplyWords query_simulator(const stream::Query& question);
  // Flushes the stream and blocks until `is_complete()` returns true. `is_complete` must poll the MPI library.
  void poll_until(const std::function<bool()>& is_complete);
  // Blocks, like MPI_Wait, until the MPI library has completed the request. Returns MPI's error code.
  int wait_for_request(MPI_Request* request, MPI_Status* status);
  // Performs a barrier on a communicator, also in the simulation, before a synchronising call that has no event.
  void synchronize_ranks(MPI_Comm comm);

  MPI_Request acquire_placeholder();
  void release_placeholder(MPI_Request handle) { free_placeholders_.push_back(handle); }

  // Posts a receive now, or defers it if it may match different messages. `irecv` is the MPI library's own function.
  template <class Irecv, class Count>
  DeferredRequestPointer receive_or_defer(Irecv irecv, void* buffer, Count count, MPI_Datatype type, int source,
                                          int tag, MPI_Comm comm) {
    const auto message = std::make_shared<DeferredRequest>();
    message->post_receive = [=](int matched_source, int matched_tag, MPI_Request* library_request) {
      return irecv(buffer, count, type, matched_source, matched_tag, comm, library_request);
    };
    post_or_defer(message, make_receive_event(buffer, count, type, source, tag, comm), source, tag);
    return message;
  }
  // Adds a receive that the MPI library has already posted (MPI_Imrecv).
  DeferredRequestPointer add_posted_receive(const stream::Receive& event, MPI_Request library_request);
  // Sends a copy of the data, so that the program may continue.
  template <class Count>
  DeferredRequestPointer send_buffered(stream::SendMode mode, const void* buffer, Count count, MPI_Datatype type,
                                       int destination, int tag, MPI_Comm comm) {
    return send_copied_message(make_send_event(mode, buffer, count, type, destination, tag, comm), buffer, count, type,
                               destination, tag, comm);
  }
  // Blocks until the message has completed, and copies its status to `status`, which may be null. Returns MPI's error
  // code.
  int complete_message(DeferredRequest& message, MPI_Status* status);
  // Waits until all buffered sends have completed, and frees the placeholder handles. To be called in MPI_Finalize.
  void finish_sends();

 private:
  struct SendCopy {
    std::vector<char> bytes;
    MPI_Request request;
  };
  static constexpr std::size_t default_max_buffered_bytes = 64 << 20;  // copies in flight before a send is throttled

  void receive_replies(int timeout_ms);
  void read_reply_bytes(int timeout_ms);
  std::optional<ReplyWords> take_reply();
  void post_or_defer(const DeferredRequestPointer& message, stream::Receive event, int source, int tag);
  void post_deferred_receive(stream::Number number, int source, int tag);
  DeferredRequestPointer send_copied_message(const stream::Send& event, const void* buffer, MPI_Count count,
                                             MPI_Datatype type, int destination, int tag, MPI_Comm comm);
  void wait_for_send_buffer_space();
  void free_sent_copies();

  std::vector<unsigned char> received_bytes_;  // received bytes that are not parsed yet; they begin with a reply
  std::deque<ReplyWords> queued_replies_;
  std::list<DeferredRequestPointer> deferred_receives_;  // deferred receives, in the order of the program's calls
  std::list<SendCopy> sent_copies_;                      // copies of buffered sends
  std::size_t copied_bytes_ = 0, max_copied_bytes_ = default_max_buffered_bytes;
  std::vector<MPI_Request> free_placeholders_;  // free placeholder handles
};

LiveSession& live_session();

// Returns the table entry of a request whose placeholder handle stands for the message.
inline Request make_placeholder_request(DeferredRequestPointer message, bool is_receive) {
  Request request;
  request.number = message->number;
  request.is_receive = is_receive;
  request.live_message = std::move(message);
  return request;
}

}  // namespace nearfield::observe

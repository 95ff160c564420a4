#include "preload/observe/mpi/live_session.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "preload/observe/mpi/collective_events.hpp"
#include "preload/observe/mpi/wrapper.hpp"
#include "trace/stream/live_reply.hpp"

namespace nearfield::observe {
namespace {

constexpr int max_sleep_ms = 8;  // other ranks may depend on this rank to drive MPI progress
constexpr auto max_throttle = std::chrono::milliseconds(200);

[[noreturn]] void exit_without_simulation() {
  std::fprintf(stderr, "nearfield: the simulation has ended; so does this program, which waits for its answer\n");
  std::signal(SIGTERM, SIG_DFL);
  kill(getpid(), SIGTERM);
  _exit(1);
}

MPI_Status make_empty_status() {
  MPI_Request none = MPI_REQUEST_NULL;
  MPI_Status status;
  int flag = 0;
  PMPI(MPI_Test)(&none, &flag, &status);
  return status;
}

// Returns the status of a receive from MPI_PROC_NULL, by a blocking receive: MPICH 4.0 leaves the status of a
// nonblocking one unset.
MPI_Status make_proc_null_status() {
  MPI_Status status;
  PMPI(MPI_Recv)(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_SELF, &status);
  return status;
}

void post_receive_now(DeferredRequest& message, int source, int tag) {
  message.is_posted = true;
  message.post_error = message.post_receive(source, tag, &message.library_request);
}

}  // namespace

LiveSession& live_session() {
  static LiveSession& instance = *new LiveSession;  // never destroyed, as in call.cpp
  return instance;
}

// ---- connection to the simulator

// Reads the bytes that have arrived from the simulator; waits for at most `timeout_ms`. Ends the process if the
// simulation has ended.
void LiveSession::read_reply_bytes(int timeout_ms) {
  pollfd polled{detail::reply_descriptor, POLLIN, 0};
  if (poll(&polled, 1, timeout_ms) <= 0) return;
  unsigned char buffer[4096];
  const auto count = read(detail::reply_descriptor, buffer, sizeof buffer);
  if (count < 0 && errno == EINTR) return;
  if (count <= 0) exit_without_simulation();
  received_bytes_.insert(received_bytes_.end(), buffer, buffer + count);
}

// Removes one complete reply from the received bytes and returns it; nothing if no reply is complete.
std::optional<ReplyWords> LiveSession::take_reply() {
  constexpr std::size_t word = sizeof(std::int64_t);
  std::int64_t head[2];
  if (received_bytes_.size() < sizeof head) return {};
  std::memcpy(head, received_bytes_.data(), sizeof head);
  const std::size_t size = sizeof head + word * static_cast<std::size_t>(head[1]);
  if (received_bytes_.size() < size) return {};
  ReplyWords words(size / word);
  std::memcpy(words.data(), received_bytes_.data(), size);
  received_bytes_.erase(received_bytes_.begin(), received_bytes_.begin() + static_cast<std::ptrdiff_t>(size));
  return words;
}

// Waits at most `timeout_ms` for replies. Posts the deferred receives whose matches the replies report, and queues
// other replies.
void LiveSession::receive_replies(int timeout_ms) {
  read_reply_bytes(timeout_ms);
  while (auto words = take_reply()) {
    if ((*words)[0] == static_cast<std::int64_t>(stream::ReplyKind::matched_receive))
      post_deferred_receive(static_cast<stream::Number>((*words)[2]), static_cast<int>((*words)[3]),
                            static_cast<int>((*words)[4]));
    else
      queued_replies_.emplace_back(words->begin() + 2, words->end());
  }
}

ReplyWords LiveSession::query_simulator(const stream::Query& question) {
  record_event(question);
  flush_stream();
  for (int sleep_ms = 1; queued_replies_.empty(); sleep_ms = std::min(2 * sleep_ms, max_sleep_ms)) {
    receive_replies(sleep_ms);
    free_sent_copies();
  }
  ReplyWords reply = std::move(queued_replies_.front());
  queued_replies_.pop_front();
  return reply;
}

void LiveSession::poll_until(const std::function<bool()>& is_complete) {
  if (is_complete()) return;
  flush_stream();
  for (int sleep_ms = 0; !is_complete(); sleep_ms = std::min(2 * sleep_ms + 1, max_sleep_ms)) {
    receive_replies(sleep_ms);
    free_sent_copies();
  }
}

int LiveSession::wait_for_request(MPI_Request* request, MPI_Status* status) {
  int flag = 0, result = PMPI(MPI_Test)(request, &flag, status);
  if (flag || result != MPI_SUCCESS) return result;
  if (deferred_receives_.empty()) {
    flush_stream();
    return PMPI(MPI_Wait)(request, status);
  }
  poll_until([&] {
    result = PMPI(MPI_Test)(request, &flag, status);
    return flag || result != MPI_SUCCESS;
  });
  return result;
}

void LiveSession::synchronize_ranks(MPI_Comm comm) {
  record_event(events::make_barrier_event(comm));
  MPI_Request request;
  PMPI(MPI_Ibarrier)(comm, &request);
  wait_for_request(&request, MPI_STATUS_IGNORE);
}

// ---- receives

// Returns a placeholder handle: a persistent receive from MPI_PROC_NULL that is never started, so no other request has
// the same handle.
MPI_Request LiveSession::acquire_placeholder() {
  MPI_Request handle;
  if (free_placeholders_.empty()) {
    PMPI(MPI_Recv_init)(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_SELF, &handle);
    return handle;
  }
  handle = free_placeholders_.back();
  free_placeholders_.pop_back();
  return handle;
}

void LiveSession::post_or_defer(const DeferredRequestPointer& message, stream::Receive event, int source, int tag) {
  const bool has_wildcard = source == MPI_ANY_SOURCE || tag == MPI_ANY_TAG;
  const bool is_from_proc_null = source == MPI_PROC_NULL;
  event.notify_on_match = !is_from_proc_null && (has_wildcard || !deferred_receives_.empty());
  message->number = record_start_of(event);
  if (event.notify_on_match) {
    deferred_receives_.push_back(message);
  } else if (is_from_proc_null) {
    message->is_posted = message->is_completed = true;
    message->status = make_proc_null_status();
  } else {
    post_receive_now(*message, source, tag);
  }
}

DeferredRequestPointer LiveSession::add_posted_receive(const stream::Receive& event, MPI_Request library_request) {
  const auto message = std::make_shared<DeferredRequest>();
  message->number = record_start_of(event);
  message->is_posted = true;
  message->library_request = library_request;
  return message;
}

void LiveSession::post_deferred_receive(stream::Number number, int source, int tag) {
  const auto found = std::ranges::find(deferred_receives_, number, [](const auto& message) { return message->number; });
  if (found == deferred_receives_.end()) return;
  post_receive_now(**found, source, tag);
  deferred_receives_.erase(found);
}

int LiveSession::complete_message(DeferredRequest& message, MPI_Status* status) {
  int result = message.post_error;
  if (!message.is_completed) {
    poll_until([&] { return message.is_posted; });
    result = message.post_error == MPI_SUCCESS ? wait_for_request(&message.library_request, &message.status)
                                               : message.post_error;
    message.is_completed = true;
  }
  if (status) *status = message.status;
  return result;
}

// ---- sends

// Frees the oldest copies up to the first that is not sent yet. The MPI_Test of that copy also drives the MPI library's
// progress: a receiver may wait inside the library for a buffered send, and may send the message for which this rank
// waits only after that. MPI_Iprobe on MPI_COMM_SELF does not suffice: under MPICH 4.0, sends never complete.
void LiveSession::free_sent_copies() {
  for (int flag = 1; flag && !sent_copies_.empty();) {
    PMPI(MPI_Test)(&sent_copies_.front().request, &flag, MPI_STATUS_IGNORE);
    if (!flag) return;
    copied_bytes_ -= sent_copies_.front().bytes.size();
    sent_copies_.pop_front();
  }
  if (sent_copies_.empty()) max_copied_bytes_ = default_max_buffered_bytes;
}

// Called before another send is buffered: waits until slow receivers have received enough of the buffered bytes, but at
// most `max_throttle`, because the receivers may wait for the simulation, which may wait for this rank's next call. If
// the time is over, doubles the limit until the present bytes fit.
void LiveSession::wait_for_send_buffer_space() {
  free_sent_copies();
  const auto until = std::chrono::steady_clock::now() + max_throttle;
  const auto has_buffer_space = [this] { return copied_bytes_ <= max_copied_bytes_; };
  if (!has_buffer_space())
    poll_until([&] { return free_sent_copies(), has_buffer_space() || std::chrono::steady_clock::now() > until; });
  while (!has_buffer_space()) max_copied_bytes_ *= 2;
}

DeferredRequestPointer LiveSession::send_copied_message(const stream::Send& event, const void* buffer, MPI_Count count,
                                                        MPI_Datatype type, int destination, int tag, MPI_Comm comm) {
  auto message = std::make_shared<DeferredRequest>();
  message->number = record_start_of(event);
  message->is_posted = message->is_completed = true;  // as the program sees it
  message->status = make_empty_status();
  if (destination == MPI_PROC_NULL) return message;
  int bytes = 0, packed = 0;
  if (count > INT_MAX || PMPI(MPI_Pack_size)(static_cast<int>(count), type, comm, &bytes) != MPI_SUCCESS) {
    mark_unsupported("a message of more than 2 GiB in a live simulation");
    return message;
  }
  wait_for_send_buffer_space();
  SendCopy& copy = sent_copies_.emplace_back();
  copy.bytes.resize(static_cast<std::size_t>(bytes));
  PMPI(MPI_Pack)(buffer, static_cast<int>(count), type, copy.bytes.data(), bytes, &packed, comm);
  const auto send = event.mode == stream::SendMode::synchronous ? PMPI(MPI_Issend) : PMPI(MPI_Isend);
  message->post_error = send(copy.bytes.data(), packed, MPI_PACKED, destination, tag, comm, &copy.request);
  if (message->post_error == MPI_SUCCESS)
    copied_bytes_ += copy.bytes.size();
  else
    sent_copies_.pop_back();
  return message;
}

void LiveSession::finish_sends() {
  poll_until([this] { return free_sent_copies(), sent_copies_.empty(); });
  for (MPI_Request& placeholder : free_placeholders_) PMPI(MPI_Request_free)(&placeholder);
  free_placeholders_.clear();
}

}  // namespace nearfield::observe

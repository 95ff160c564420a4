#include "preload/observe/mpi/deferred_requests.hpp"

#include <chrono>
#include <climits>
#include <list>

#include "preload/observe/mpi/live_client.hpp"
#include "preload/observe/mpi/wrapper.hpp"

namespace nearfield::observe {
namespace {

constexpr std::size_t default_max_buffered_bytes = 64 << 20;  // in flight, before a send is throttled
constexpr auto max_wait = std::chrono::milliseconds(200);

struct Copy {
  std::vector<char> bytes;
  MPI_Request request;
};

struct All {
  std::list<std::shared_ptr<DeferredRequest>> deferred;  // in the order of the program's calls
  std::list<Copy> copies;
  std::size_t copied = 0, most = default_max_buffered_bytes;
  std::vector<MPI_Request> handles;  // placeholders for reuse
};

All& all() {
  static All& only = *new All;  // never destroyed, as in call.cpp
  return only;
}

// Frees the oldest buffers up to the first one that has not been sent.
void free_sent_buffers() {
  auto& copies = all().copies;
  for (int flag = 1; flag && !copies.empty();) {
    PMPI(MPI_Test)(&copies.front().request, &flag, MPI_STATUS_IGNORE);
    if (!flag) return;
    all().copied -= copies.front().bytes.size();
    copies.pop_front();
  }
  if (copies.empty()) all().most = default_max_buffered_bytes;
}

// Waits until slow receivers have caught up, before more is buffered. The wait is bounded, because they may wait for
// the simulation, which may wait for this rank's next call.
void throttle() {
  free_sent_buffers();
  const auto until = std::chrono::steady_clock::now() + max_wait;
  const auto has_room = [] { return all().copied <= all().most; };
  if (!has_room())
    progress_until([&] { return free_sent_buffers(), has_room() || std::chrono::steady_clock::now() > until; });
  while (!has_room()) all().most *= 2;
}

MPI_Status empty_status() {
  MPI_Request none = MPI_REQUEST_NULL;
  MPI_Status status;
  int flag = 0;
  PMPI(MPI_Test)(&none, &flag, &status);
  return status;
}

void post_now(DeferredRequest& held, int source, int tag) {
  held.posted = true;
  held.error = held.post(source, tag, &held.real);
}

}  // namespace

// Returns a persistent receive from MPI_PROC_NULL that is never started, so no other request has its handle.
MPI_Request acquire_placeholder() {
  auto& spare = all().handles;
  MPI_Request handle;
  if (spare.empty()) {
    PMPI(MPI_Recv_init)(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_SELF, &handle);
    return handle;
  }
  handle = spare.back();
  spare.pop_back();
  return handle;
}

void release_placeholder(MPI_Request handle) { all().handles.push_back(handle); }

std::shared_ptr<DeferredRequest> post_or_defer(stream::Receive event, bool from_any,
                                               std::function<int(int source, int tag, MPI_Request* real)> post,
                                               int source, int tag) {
  auto held = std::make_shared<DeferredRequest>();
  held->post = std::move(post);
  event.notify_on_match = source != MPI_PROC_NULL && (from_any || has_deferred());
  held->number = start(event);
  if (event.notify_on_match)
    all().deferred.push_back(held);
  else
    post_now(*held, source, tag);
  return held;
}

std::shared_ptr<DeferredRequest> adopt_posted(stream::Receive event, MPI_Request real) {
  auto held = std::make_shared<DeferredRequest>();
  held->number = start(event);
  held->posted = true;
  held->real = real;
  return held;
}

void post_deferred(stream::Number number, int source, int tag) {
  auto& deferred = all().deferred;
  for (auto at = deferred.begin(); at != deferred.end(); ++at)
    if ((*at)->number == number) {
      post_now(**at, source, tag);
      deferred.erase(at);
      return;
    }
}

bool has_deferred() { return !all().deferred.empty(); }

int complete_request(DeferredRequest& held, MPI_Status* status) {
  int result = held.error;
  if (!held.completed) {
    progress_until([&] { return held.posted; });
    result = held.error == MPI_SUCCESS ? wait_request(&held.real, &held.status) : held.error;
    held.completed = true;
  }
  if (status) *status = held.status;
  return result;
}

std::shared_ptr<DeferredRequest> buffered_send(stream::Send event, const void* buffer, MPI_Count count,
                                               MPI_Datatype type, int destination, int tag, MPI_Comm comm) {
  auto held = std::make_shared<DeferredRequest>();
  held->number = start(event);
  held->posted = held->completed = true;  // as the program sees it
  held->status = empty_status();
  if (destination == MPI_PROC_NULL) return held;
  int bytes = 0, packed = 0;
  if (count > INT_MAX || PMPI(MPI_Pack_size)(static_cast<int>(count), type, comm, &bytes) != MPI_SUCCESS) {
    mark_unsupported("a message of more than 2 GiB in a live simulation");
    return held;
  }
  throttle();
  Copy& copy = all().copies.emplace_back();
  copy.bytes.resize(static_cast<std::size_t>(bytes));
  PMPI(MPI_Pack)(buffer, static_cast<int>(count), type, copy.bytes.data(), bytes, &packed, comm);
  const auto send = event.mode == stream::Mode::synchronous ? PMPI(MPI_Issend) : PMPI(MPI_Isend);
  held->error = send(copy.bytes.data(), packed, MPI_PACKED, destination, tag, comm, &copy.request);
  if (held->error == MPI_SUCCESS)
    all().copied += copy.bytes.size();
  else
    all().copies.pop_back();
  return held;
}

void flush_buffered_sends() {
  progress_until([] { return free_sent_buffers(), all().copies.empty(); });
  for (MPI_Request& spare : all().handles) PMPI(MPI_Request_free)(&spare);
  all().handles.clear();
}

}  // namespace nearfield::observe

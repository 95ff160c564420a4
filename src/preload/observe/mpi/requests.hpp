// The program's MPI requests and the numbers by which events refer to them.
//
// MPI libraries give all requests that complete immediately one common handle (MPICH's lightweight request, Open MPI's
// empty request), so a handle may stand for several requests. If the program passes such a handle to a call, the
// request is taken whose handle the program stores at the same address; if there is none, the oldest request. All of
// these requests have completed, so the choice hardly matters.
#pragma once

#include <mpi.h>

#include <functional>
#include <list>
#include <memory>
#include <unordered_map>
#include <variant>
#include <vector>

#include "trace/stream/events.hpp"

namespace nearfield::observe {

struct DeferredRequest;  // live_session.hpp

struct Request {
  stream::Number number = 0;                         // 0: inactive, or completion already recorded, or no event
  bool is_receive = false, is_to_proc_null = false;  // is_to_proc_null: the peer is MPI_PROC_NULL
  // the event of each start of a persistent request
  std::variant<std::monostate, stream::Send, stream::Receive> persistent_event;
  std::function<void()> on_completion;
  std::shared_ptr<DeferredRequest> live_message;                 // message in a live simulation
  std::function<std::shared_ptr<DeferredRequest>()> start_live;  // starts a persistent request in a live simulation
  const MPI_Request* handle_address = nullptr;                   // address of the program's handle; null: unknown

  bool is_persistent() const { return persistent_event.index() != 0 || start_live; }
};

class RequestTable {
 public:
  // Numbers of requests count from 1. A released number is reused.
  stream::Number allocate_number();
  void release_number(stream::Number number);

  // Adds a request whose handle an MPI function has just written to `handle_address` in the program's memory.
  void add_request(const MPI_Request* handle_address, Request request);

  // Moves the request with handle `*home` from the table to the end of `to`; if the handle is not in the table, appends
  // an empty request. Returns whether the handle was in the table.
  bool take_entry(const MPI_Request* handle_address, std::list<Request>& to);
  // Moves the first request of `from` back to the table under `handle`, if the request came from the table.
  void return_entry(MPI_Request handle, std::list<Request>& from);
  // Drops the first request of `from`.
  void recycle_entry(std::list<Request>& from);

  // Returns the persistent request with this handle; null if there is none.
  Request* find_persistent(MPI_Request handle);

 private:
  std::list<Request> take_spare_entry();

  std::unordered_map<std::uint64_t, std::list<Request>> entries_by_handle_;
  std::list<Request> spare_entries_;  // unused list nodes, for reuse without allocation
  std::vector<stream::Number> free_numbers_;
  stream::Number max_number_ = 0;
};

RequestTable& requests();

// Records the start of a send, a receive or a nonblocking collective. Returns the number allocated for the request.
template <class Kind>
stream::Number record_start_of(Kind event);

// Records the source, tag and size of the message that a receive got; with number 0, of the message that a probe found.
void record_outcome(stream::Number number, const MPI_Status& status);
// Records, in a live simulation, that the rank is about to wait for these requests.
void record_wait_started(std::vector<stream::Number> numbers);
// Records the completion of the requests of a blocking call, and releases their numbers.
void record_wait_completed(std::vector<stream::Number> numbers);

}  // namespace nearfield::observe

// The program's requests and their numbers.
//
// MPI libraries give requests that complete immediately one common handle (MPICH's lightweight request, Open MPI's
// empty request), so a handle may stand for several requests. A call then means the request whose handle the program
// keeps at that address, else the oldest one. All of them have completed, so the choice hardly matters.
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
  stream::Number number = 0;  // 0: inactive, or its completion was recorded, or no event is about it
  bool is_receive = false, is_to_nobody = false;                     // the peer is MPI_PROC_NULL
  std::variant<std::monostate, stream::Send, stream::Receive> does;  // what each start of a persistent request does
  std::function<void()> at_end;
  std::shared_ptr<DeferredRequest> held;                     // its message, in a live simulation
  std::function<std::shared_ptr<DeferredRequest>()> starts;  // starts a persistent request in a live simulation
  const MPI_Request* home = nullptr;  // where the handle was returned to the program; null: unknown

  bool is_persistent() const { return does.index() != 0 || starts; }
};

class Requests {
 public:
  // new_number() returns a number for a request, from 1 on; over() releases it.
  stream::Number new_number();
  void over(stream::Number number);

  // Adds a request whose handle an MPI function has just written to `home`.
  void add(const MPI_Request* home, Request request);

  // Moves the request from the table to the end of `to`, or appends an empty one. Returns whether it was known.
  bool take(const MPI_Request* home, std::list<Request>& to);
  // Returns the first of `from` to the table under `handle`, if it was known.
  void give_back(MPI_Request handle, std::list<Request>& from);
  // Drops the first of `from`.
  void drop(std::list<Request>& from);

  // Returns a persistent request; null if it is not known.
  Request* persistent(MPI_Request handle);

 private:
  std::list<Request> fresh();

  std::unordered_map<std::uint64_t, std::list<Request>> table_;
  std::list<Request> spare_;  // for reuse: in the long run no memory is allocated
  std::vector<stream::Number> free_numbers_;
  stream::Number max_number_ = 0;
};

Requests& requests();

// Records the start of a send, a receive or a nonblocking collective operation. Returns its request's number.
template <class Kind>
stream::Number start(Kind event);

// Records the message of a receive, or with number 0 that of a probe.
void record_outcome(stream::Number number, const MPI_Status& status);
// Records that the rank is about to wait, which a live simulation must know beforehand.
void record_wait_started(std::vector<stream::Number> numbers);
// Records the completion of a blocking call's own requests and releases their numbers.
void record_completed(std::vector<stream::Number> numbers);

}  // namespace nearfield::observe

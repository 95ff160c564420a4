// The program's requests and their numbers.
//
// MPI libraries give operations that are done at once one and the same handle (MPICH's lightweight request, Open MPI's
// empty one), so a handle may stand for several requests. Which one a call means is then told by where the program keeps
// the handle, and else is the oldest; all of them are done, so it matters little.
#pragma once

#include <mpi.h>

#include <functional>
#include <list>
#include <memory>
#include <unordered_map>
#include <variant>
#include <vector>

#include "stream/events.hpp"

namespace nearfield::observe {

struct Held;  // held.hpp

struct Request {
  stream::Number number = 0;  // 0: not active, or the program was told that it is done, or no event is about it
  bool is_receive = false, is_to_nobody = false;                     // of MPI_PROC_NULL
  std::variant<std::monostate, stream::Send, stream::Receive> does;  // a persistent request, at each start
  std::function<void()> at_end;
  std::shared_ptr<Held> held;                     // its message, where a simulation decides
  std::function<std::shared_ptr<Held>()> starts;  // of a persistent request there
  const MPI_Request* home = nullptr;              // where the program was given the handle; null: not known

  bool is_persistent() const { return does.index() != 0 || starts; }
};

class Requests {
 public:
  // Returns a number for a request, from 1, and takes it back.
  stream::Number new_number();
  void over(stream::Number number);

  // An MPI function has just written the request's handle to `home`.
  void add(const MPI_Request* home, Request request);

  // Takes the request out of the table to the end of `to`, or puts an empty one there. Returns whether it was known.
  bool take(const MPI_Request* home, std::list<Request>& to);
  // Puts the first of `from` back, as `handle`, if it was known.
  void give_back(MPI_Request handle, std::list<Request>& from);
  // Drops the first of `from`.
  void drop(std::list<Request>& from);

  // Returns a persistent request; null if it is not known.
  Request* persistent(MPI_Request handle);

 private:
  std::list<Request> fresh();

  std::unordered_map<std::uint64_t, std::list<Request>> table_;
  std::list<Request> spare_;  // for reuse: no memory is allocated in the long run
  std::vector<stream::Number> free_numbers_;
  stream::Number most_ = 0;
};

Requests& requests();

// Records the start of a send, a receive or a nonblocking collective operation. Returns its request's number.
template <class Kind>
stream::Number start(Kind event);

// Records what a receive got, or with number 0 a probe saw.
void record_outcome(stream::Number number, const MPI_Status& status);
// Records that the rank is about to wait, where a simulation must know that beforehand.
void record_waits(std::vector<stream::Number> numbers);
// Records the wait for a blocking call's own requests, whose numbers are then over.
void record_wait(std::vector<stream::Number> numbers);

}  // namespace nearfield::observe

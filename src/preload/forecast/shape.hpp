// The positions of an MPI function's arguments. They allow one generic wrapper to serve all functions of the table
// calls.def. Positions count from 0; -1 means that the function has no such argument.
#pragma once

#include <cstdint>

#include "preload/forecast/format.hpp"

namespace nearfield::forecast {

enum class CallAction : std::uint8_t {
  other,     // only the time of the call is counted
  send,      // a send to `peer`
  receive,   // a receive from `peer`; the size is in `status`
  move,      // a collective or one-sided operation; this rank sends `count` elements of `type`
  complete,  // completes requests
  start,     // starts persistent requests
  poll,      // a nonblocking query, such as MPI_Test
  free,      // frees a communicator
};

// The number of requests that a completing call completes: all of them, one, all if the argument `flag_or_count` is
// true, or as many as the argument `flag_or_count` says.
enum class CompletedRequests : std::uint8_t { all, one, by_flag, by_count };

struct ArgumentPositions {
  CallAction action = CallAction::other;
  CallCategory category = CallCategory::other;
  std::int8_t count = -1, type = -1, peer = -1, comm = -1, status = -1;
  std::int8_t request = -1;         // the request that the call creates
  std::int8_t fallback_count = -1;  // another `count`, used if the first is void (MPI_IN_PLACE, MPI_PROC_NULL)
  // has_count_per_rank: `count` is an array with one count per rank
  bool has_count_per_rank = false, is_persistent = false;
  bool is_neighborhood = false;
  std::int8_t requests = -1, request_count = -1, flag_or_count = -1;  // the requests of a completing call
  CompletedRequests completed_requests = CompletedRequests::all;
  bool is_large = false;  // counts have the type MPI_Count

  constexpr ArgumentPositions creates_request_at(std::int8_t position) const {
    return with_changes([&](ArgumentPositions& positions) { positions.request = position; });
  }
  constexpr ArgumentPositions creates_persistent_request_at(std::int8_t position) const {
    return with_changes(
        [&](ArgumentPositions& positions) { positions.request = position, positions.is_persistent = true; });
  }
  constexpr ArgumentPositions with_large_counts() const {
    return with_changes([](ArgumentPositions& positions) { positions.is_large = true; });
  }
  // `flag`: the output argument that says whether, or how many, requests or messages were found.
  constexpr ArgumentPositions is_poll_with_flag_at(std::int8_t flag) const {
    return with_changes(
        [&](ArgumentPositions& positions) { positions.action = CallAction::poll, positions.flag_or_count = flag; });
  }
  constexpr ArgumentPositions among_neighbors() const {
    return with_changes([](ArgumentPositions& positions) {
      positions.category = CallCategory::neighborhood, positions.is_neighborhood = true;
    });
  }

  template <class Change>
  constexpr ArgumentPositions with_changes(Change change) const {
    ArgumentPositions changed = *this;
    change(changed);
    return changed;
  }
};

namespace signatures {

using Position = std::int8_t;

constexpr ArgumentPositions timed_only(CallCategory category = CallCategory::other) {
  ArgumentPositions positions;
  positions.category = category;
  return positions;
}
constexpr ArgumentPositions send(Position peer = 3, Position comm = 5) {
  ArgumentPositions positions{CallAction::send, CallCategory::point_to_point};
  positions.count = 1, positions.type = 2, positions.peer = peer, positions.comm = comm;
  return positions;
}
// A send and a receive. `receive_count`: position of the receive count, which is used if the destination is
// MPI_PROC_NULL.
constexpr ArgumentPositions exchange(Position comm, Position receive_count = -1) {
  return send(3, comm).with_changes([&](ArgumentPositions& positions) { positions.fallback_count = receive_count; });
}
constexpr ArgumentPositions receive(Position comm = 5, Position status = -1) {
  ArgumentPositions positions{CallAction::receive, CallCategory::point_to_point};
  positions.count = 1, positions.type = 2, positions.comm = comm, positions.status = status;
  positions.peer = comm < 0 ? Position(-1) : Position(3);
  return positions;
}
// A probe: waits for a message without receiving it.
constexpr ArgumentPositions probe(Position comm = 2) {
  ArgumentPositions positions{CallAction::other, CallCategory::point_to_point};
  positions.comm = comm;
  return positions;
}
constexpr ArgumentPositions collective(Position count, Position type, Position comm, Position fallback_count = -1) {
  ArgumentPositions positions{CallAction::move, CallCategory::collective};
  positions.count = count, positions.type = type, positions.comm = comm, positions.fallback_count = fallback_count;
  return positions;
}
constexpr ArgumentPositions collective_with_counts(Position count, Position type, Position comm,
                                                   Position fallback_count = -1) {
  return collective(count, type, comm, fallback_count).with_changes([](ArgumentPositions& positions) {
    positions.has_count_per_rank = true;
  });
}
constexpr ArgumentPositions one_sided() { return timed_only(CallCategory::one_sided); }
constexpr ArgumentPositions rma_transfer(Position count = 1, Position type = 2) {
  ArgumentPositions positions{CallAction::move, CallCategory::one_sided};
  positions.count = count, positions.type = type;
  return positions;
}
constexpr ArgumentPositions completion_of(Position requests, Position request_count = -1,
                                          CompletedRequests completed = CompletedRequests::all,
                                          Position flag_or_count = -1) {
  ArgumentPositions positions{CallAction::complete, CallCategory::completion};
  positions.requests = requests, positions.request_count = request_count, positions.completed_requests = completed,
  positions.flag_or_count = flag_or_count;
  return positions;
}
constexpr ArgumentPositions start_of(Position requests, Position request_count = -1) {
  return completion_of(requests, request_count).with_changes([](ArgumentPositions& positions) {
    positions.action = CallAction::start;
  });
}
constexpr ArgumentPositions communicator_free() {
  ArgumentPositions positions{CallAction::free, CallCategory::other};
  positions.comm = 0;
  return positions;
}

}  // namespace signatures
}  // namespace nearfield::forecast

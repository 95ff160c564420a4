// The positions of an MPI function's arguments, by which one generic wrapper serves all functions of the table
// calls.def. Positions count from 0; -1: the function has no such argument.
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

// How many of the requests a completing call completes: all, one, all if the argument `found` is true, or the number in
// the argument `found`.
enum class Completes : std::uint8_t { all, one, by_flag, by_count };

struct CallShape {
  CallAction does = CallAction::other;
  Category category = Category::other;
  std::int8_t count = -1, type = -1, peer = -1, comm = -1, status = -1;
  std::int8_t request = -1;  // the request that the call creates
  std::int8_t instead = -1;  // another `count`, used if the first is void (MPI_IN_PLACE, MPI_PROC_NULL)
  bool is_list = false, is_persistent = false;  // is_list: `count` is an array with one count per rank
  bool of_neighbours = false;
  std::int8_t requests = -1, how_many = -1, found = -1;  // the requests of a completing call
  Completes completes = Completes::all;
  bool is_large = false;  // counts have the type MPI_Count

  constexpr CallShape begins(std::int8_t where) const {
    return with_changes([&](CallShape& s) { s.request = where; });
  }
  constexpr CallShape persists(std::int8_t where) const {
    return with_changes([&](CallShape& s) { s.request = where, s.is_persistent = true; });
  }
  constexpr CallShape large() const {
    return with_changes([](CallShape& s) { s.is_large = true; });
  }
  // `flag`: the output argument that says whether, or how many, requests or messages were found.
  constexpr CallShape polls(std::int8_t flag) const {
    return with_changes([&](CallShape& s) { s.does = CallAction::poll, s.found = flag; });
  }
  constexpr CallShape neighbours() const {
    return with_changes([](CallShape& s) { s.category = Category::neighbours, s.of_neighbours = true; });
  }

  template <class Change>
  constexpr CallShape with_changes(Change change) const {
    CallShape changed = *this;
    change(changed);
    return changed;
  }
};

namespace shapes {

using Position = std::int8_t;

constexpr CallShape plain(Category category = Category::other) {
  CallShape s;
  s.category = category;
  return s;
}
constexpr CallShape send(Position peer = 3, Position comm = 5) {
  CallShape s{CallAction::send, Category::point_to_point};
  s.count = 1, s.type = 2, s.peer = peer, s.comm = comm;
  return s;
}
// A send and a receive. `receives`: position of the receive count, which is used if the destination is MPI_PROC_NULL.
constexpr CallShape exchange(Position comm, Position receives = -1) {
  return send(3, comm).with_changes([&](CallShape& s) { s.instead = receives; });
}
constexpr CallShape receive(Position comm = 5, Position status = -1) {
  CallShape s{CallAction::receive, Category::point_to_point};
  s.count = 1, s.type = 2, s.comm = comm, s.status = status;
  s.peer = comm < 0 ? Position(-1) : Position(3);
  return s;
}
// A wait for a message without receiving the message.
constexpr CallShape probe(Position comm = 2) {
  CallShape s{CallAction::other, Category::point_to_point};
  s.comm = comm;
  return s;
}
constexpr CallShape collective(Position count, Position type, Position comm, Position instead = -1) {
  CallShape s{CallAction::move, Category::collective};
  s.count = count, s.type = type, s.comm = comm, s.instead = instead;
  return s;
}
constexpr CallShape listed(Position count, Position type, Position comm, Position instead = -1) {
  return collective(count, type, comm, instead).with_changes([](CallShape& s) { s.is_list = true; });
}
constexpr CallShape one_sided() { return plain(Category::one_sided); }
constexpr CallShape moves(Position count = 1, Position type = 2) {
  CallShape s{CallAction::move, Category::one_sided};
  s.count = count, s.type = type;
  return s;
}
constexpr CallShape completes(Position requests, Position how_many = -1, Completes what = Completes::all,
                              Position found = -1) {
  CallShape s{CallAction::complete, Category::completion};
  s.requests = requests, s.how_many = how_many, s.completes = what, s.found = found;
  return s;
}
constexpr CallShape starts(Position requests, Position how_many = -1) {
  return completes(requests, how_many).with_changes([](CallShape& s) { s.does = CallAction::start; });
}
constexpr CallShape frees() {
  CallShape s{CallAction::free, Category::other};
  s.comm = 0;
  return s;
}

}  // namespace shapes
}  // namespace nearfield::forecast

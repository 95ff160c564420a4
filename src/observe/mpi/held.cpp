#include "observe/mpi/held.hpp"

#include <chrono>
#include <climits>
#include <list>

#include "observe/mpi/asking.hpp"
#include "observe/mpi/wrapper.hpp"

namespace nearfield::observe {
namespace {

constexpr std::size_t usually_most = 64 << 20;  // bytes under way, before a send waits for room
constexpr auto longest_wait = std::chrono::milliseconds(200);

struct Copy {
  std::vector<char> bytes;
  MPI_Request request;
};

struct All {
  std::list<std::shared_ptr<Held>> unbegun;  // in the order in which the program began them
  std::list<Copy> copies;
  std::size_t copied = 0, most = usually_most;
  std::vector<MPI_Request> handles;  // to be used again
};

All& all() {
  static All& only = *new All;  // never destroyed, as in call.cpp
  return only;
}

// Forgets the copies that have been sent, of the oldest ones.
void forget_copies() {
  auto& copies = all().copies;
  for (int flag = 1; flag && !copies.empty();) {
    PMPI(MPI_Test)(&copies.front().request, &flag, MPI_STATUS_IGNORE);
    if (!flag) return;
    all().copied -= copies.front().bytes.size();
    copies.pop_front();
  }
  if (copies.empty()) all().most = usually_most;
}

// Lets slow receivers catch up before more is copied. Only for a while: they may wait for the simulation, and that for
// what this rank does next.
void wait_for_room() {
  forget_copies();
  const auto until = std::chrono::steady_clock::now() + longest_wait;
  const auto has_room = [] { return all().copied <= all().most; };
  if (!has_room()) go_on_when([&] { return forget_copies(), has_room() || std::chrono::steady_clock::now() > until; });
  while (!has_room()) all().most *= 2;
}

MPI_Status of_nothing() {
  MPI_Request none = MPI_REQUEST_NULL;
  MPI_Status status;
  int flag = 0;
  PMPI(MPI_Test)(&none, &flag, &status);
  return status;
}

void begin_now(Held& held, int source, int tag) {
  held.begun = true;
  held.error = held.begin(source, tag, &held.real);
}

}  // namespace

// A persistent receive from nobody that is never started: a handle that no other request has.
MPI_Request new_handle() {
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

void give_handle(MPI_Request handle) { all().handles.push_back(handle); }

std::shared_ptr<Held> hold(stream::Receive event, bool from_any,
                           std::function<int(int source, int tag, MPI_Request* real)> begin, int source, int tag) {
  auto held = std::make_shared<Held>();
  held->begin = std::move(begin);
  event.told = source != MPI_PROC_NULL && (from_any || any_unbegun());
  held->number = start(event);
  if (event.told)
    all().unbegun.push_back(held);
  else
    begin_now(*held, source, tag);
  return held;
}

std::shared_ptr<Held> hold_begun(stream::Receive event, MPI_Request real) {
  auto held = std::make_shared<Held>();
  held->number = start(event);
  held->begun = true;
  held->real = real;
  return held;
}

void begin_held(stream::Number number, int source, int tag) {
  auto& unbegun = all().unbegun;
  for (auto at = unbegun.begin(); at != unbegun.end(); ++at)
    if ((*at)->number == number) {
      begin_now(**at, source, tag);
      unbegun.erase(at);
      return;
    }
}

bool any_unbegun() { return !all().unbegun.empty(); }

int finish(Held& held, MPI_Status* status) {
  int result = held.error;
  if (!held.over) {
    go_on_when([&] { return held.begun; });
    result = held.error == MPI_SUCCESS ? wait_for(&held.real, &held.status) : held.error;
    held.over = true;
  }
  if (status) *status = held.status;
  return result;
}

std::shared_ptr<Held> hold_copy(stream::Send event, const void* buffer, MPI_Count count, MPI_Datatype type,
                                int destination, int tag, MPI_Comm comm) {
  auto held = std::make_shared<Held>();
  held->number = start(event);
  held->begun = held->over = true;  // for the program
  held->status = of_nothing();
  if (destination == MPI_PROC_NULL) return held;
  int bytes = 0, packed = 0;
  if (count > INT_MAX || PMPI(MPI_Pack_size)(static_cast<int>(count), type, comm, &bytes) != MPI_SUCCESS) {
    refuse("a message of more than 2 GiB in a program that asks its simulation");
    return held;
  }
  wait_for_room();
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

void finish_copies() {
  go_on_when([] { return forget_copies(), all().copies.empty(); });
  for (MPI_Request& spare : all().handles) PMPI(MPI_Request_free)(&spare);
  all().handles.clear();
}

}  // namespace nearfield::observe

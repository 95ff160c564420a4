#include "preload/forecast/describe.hpp"

#include <algorithm>

#include "preload/forecast/communicators.hpp"
#include "preload/forecast/requests.hpp"
#include "preload/mpi/handles.hpp"

namespace nearfield::forecast {
namespace {

static_assert(sizeof(MPI_Status) <= sizeof(CallObservation::status));

template <class Handle>
Handle handle_of(Word word) {
  if constexpr (std::is_pointer_v<Handle>)
    return reinterpret_cast<Handle>(word);
  else
    return static_cast<Handle>(word);
}

template <class Handle>
std::uint64_t word_of(Handle handle) {
  if constexpr (std::is_pointer_v<Handle>)
    return reinterpret_cast<std::uint64_t>(handle);
  else
    return static_cast<std::uint32_t>(handle);
}

std::uint64_t extent_of(Word type) {
  MPI_Count bytes = 0;
  PMPI(MPI_Type_size_x)(handle_of<MPI_Datatype>(type), &bytes);
  return bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

std::uint64_t count_argument(const CallShape& shape, Word word) {
  const Word count = shape.is_large ? word : static_cast<int>(word);
  return count > 0 ? static_cast<std::uint64_t>(count) : 0;
}

// Returns the mean, rounded up, of an array of counts with one count per rank or neighbour.
std::uint64_t mean_count(const CallShape& shape, Word list, int members) {
  std::uint64_t sum = 0;
  for (int i = 0; i < members; ++i)
    sum += count_argument(shape, shape.is_large ? reinterpret_cast<const MPI_Count*>(list)[i]
                                                : Word{reinterpret_cast<const int*>(list)[i]});
  return members ? (sum + static_cast<std::uint64_t>(members) - 1) / static_cast<std::uint64_t>(members) : 0;
}

// Returns the number of bytes that this rank sends in a collective or one-sided operation; per destination if the data
// for each destination differ.
std::uint64_t bytes_of_move(const CallShape& shape, const Word* arguments, const Communicator* comm) {
  if (shape.count < 0 || (comm && comm->is_between_groups)) return 0;  // on intercommunicators other ranks send
  int count = shape.count, type = shape.type;
  if (count > 0 && arguments[count - 1] == reinterpret_cast<Word>(MPI_IN_PLACE)) {
    if (shape.instead < 0) return 0;
    type += shape.instead - count;
    count = shape.instead;
  }
  if (!shape.is_list) return count_argument(shape, arguments[count]) * extent_of(arguments[type]);
  const int members = !comm ? 0 : shape.of_neighbours ? comm->destinations : comm->size;
  return members ? mean_count(shape, arguments[count], members) * extent_of(arguments[type]) : 0;
}

void add_sent(CallObservation& before, Place place, std::uint64_t bytes) {
  (place == Place::others ? before.sent_to_others : before.sent_to_node) += bytes;
}

const Communicator* communicator_of(const CallShape& shape, const Word* arguments) {
  return shape.comm >= 0 ? known_communicator(handle_of<MPI_Comm>(arguments[shape.comm])) : nullptr;
}

void describe_send(const CallShape& shape, const Word* arguments, CallObservation& before) {
  const Communicator* const comm = communicator_of(shape, arguments);
  int peer = static_cast<int>(arguments[shape.peer]), count = shape.count, type = shape.type;
  before.sends = peer >= 0;
  if (peer < 0 && shape.instead >= 0) {
    count = shape.instead, type = count + 1;
    peer = static_cast<int>(arguments[count + 2]);
  }
  before.did.place = place_of(comm, peer);
  before.did.messages = 1;
  if (before.sends || shape.instead >= 0)
    before.did.bytes = count_argument(shape, arguments[count]) * extent_of(arguments[type]);
  if (before.sends) add_sent(before, before.did.place, before.did.bytes);
}

void describe_receive(const CallShape& shape, const Word* arguments, CallObservation& before) {
  int peer = shape.peer >= 0 ? static_cast<int>(arguments[shape.peer]) : -1;
  before.did.messages = 1;
  if (shape.status >= 0) {
    const auto& status = *reinterpret_cast<const MPI_Status*>(arguments[shape.status]);
    MPI_Count bytes = 0;
    PMPI(MPI_Get_elements_x)(&status, MPI_BYTE, &bytes);
    before.did.bytes = bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
    peer = status.MPI_SOURCE;
  } else {
    before.did.bytes = count_argument(shape, arguments[shape.count]) * extent_of(arguments[shape.type]);
  }
  before.did.place = place_of(communicator_of(shape, arguments), peer);
}

// ---- requests

constexpr int max_requests = 64;  // requests examined per call; further requests are assumed to be similar

void describe_requests(const CallShape& shape, const Word* arguments, CallObservation& before) {
  const auto* const handles = reinterpret_cast<const MPI_Request*>(arguments[shape.requests]);
  const int number = shape.how_many >= 0 ? std::max(0, static_cast<int>(arguments[shape.how_many])) : 1;
  const int examined = std::min(number, shape.does == CallAction::poll ? 1 : max_requests);
  const std::uint64_t times = examined ? static_cast<std::uint64_t>(number / examined) : 1;
  PendingRequest one;
  std::uint64_t found = 0;
  for (int i = 0; i < examined; ++i) {
    if (!requests::find(word_of(handles[i]), one)) continue;
    before.sends |= one.is_send;
    if (one.is_send) add_sent(before, one.place, one.bytes * times);
    before.did.bytes += one.bytes * times;
    before.did.category = found == 0 || before.did.category == one.category ? one.category : Category::completion;
    before.did.place = found == 0 || before.did.place == one.place ? one.place : Place::both;
    ++found;
  }
  before.did.messages = found * times;
}

// Subtracts the requests that the call has not completed.
void subtract_incomplete(const CallShape& shape, const Word* arguments, CallDescription& did) {
  if (shape.completes == Completes::all || did.messages == 0) return;
  const int found = shape.found >= 0 ? *reinterpret_cast<const int*>(arguments[shape.found]) : 1;
  std::uint64_t done = found > 0 ? 1 : 0;
  if (shape.completes == Completes::by_flag) done *= did.messages;
  if (shape.completes == Completes::by_count)
    done = found == MPI_UNDEFINED || found < 0 ? 0 : static_cast<std::uint64_t>(found);
  did.bytes = did.bytes / did.messages * done;
  did.messages = done;
}

void add_pending_request(const CallShape& shape, const Word* arguments, const CallObservation& before) {
  const MPI_Request made = *reinterpret_cast<const MPI_Request*>(arguments[shape.request]);
  requests::add(word_of(made), {shape.category, before.did.place, before.sends, before.did.bytes});
}

}  // namespace

void observe_before_call(const CallShape& shape, Word* arguments, CallObservation& before) {
  before.did.category = shape.category;
  if (shape.requests >= 0) describe_requests(shape, arguments, before);
  if (shape.status >= 0 && arguments[shape.status] == reinterpret_cast<Word>(MPI_STATUS_IGNORE))
    arguments[shape.status] = reinterpret_cast<Word>(before.status);
  if (shape.does == CallAction::free) forget_communicator(*reinterpret_cast<MPI_Comm*>(arguments[shape.comm]));
}

void observe_after_call(const CallShape& shape, const Word* arguments, CallObservation& before, Table& table) {
  CallDescription& did = before.did;
  if (shape.does == CallAction::send) describe_send(shape, arguments, before);
  if (shape.does == CallAction::receive) describe_receive(shape, arguments, before);
  if (shape.does == CallAction::move) {
    const Communicator* const comm = communicator_of(shape, arguments);
    if (comm) did.place = comm->place;
    did.messages = 1;
    did.bytes = bytes_of_move(shape, arguments, comm);
  }
  if (shape.requests >= 0) subtract_incomplete(shape, arguments, did);
  if (shape.request >= 0) add_pending_request(shape, arguments, before);
  if (!shape.is_persistent && (shape.does == CallAction::send || shape.does == CallAction::start)) {
    table.sent_to_node += before.sent_to_node;
    table.sent_to_others += before.sent_to_others;
  }
  if (shape.is_persistent) did.messages = did.bytes = 0;  // a persistent request moves no data before its start
}

}  // namespace nearfield::forecast

#include "preload/forecast/describe.hpp"

#include <algorithm>

#include "preload/forecast/communicators.hpp"
#include "preload/forecast/requests.hpp"
#include "preload/mpi/handles.hpp"

namespace nearfield::forecast {
namespace {

static_assert(sizeof(MPI_Status) <= sizeof(CallObservation::status));

template <class Handle>
Handle as_handle(ArgumentWord word) {
  if constexpr (std::is_pointer_v<Handle>)
    return reinterpret_cast<Handle>(word);
  else
    return static_cast<Handle>(word);
}

template <class Handle>
std::uint64_t as_key(Handle handle) {
  if constexpr (std::is_pointer_v<Handle>)
    return reinterpret_cast<std::uint64_t>(handle);
  else
    return static_cast<std::uint32_t>(handle);
}

std::uint64_t type_size_bytes(ArgumentWord type) {
  MPI_Count bytes = 0;
  PMPI(MPI_Type_size_x)(as_handle<MPI_Datatype>(type), &bytes);
  return bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

std::uint64_t count_argument(const ArgumentPositions& positions, ArgumentWord word) {
  const ArgumentWord count = positions.is_large ? word : static_cast<int>(word);
  return count > 0 ? static_cast<std::uint64_t>(count) : 0;
}

// Returns the mean, rounded up, of an array of counts with one count per rank or neighbour.
std::uint64_t mean_count(const ArgumentPositions& positions, ArgumentWord list, int members) {
  std::uint64_t sum = 0;
  for (int i = 0; i < members; ++i)
    sum += count_argument(positions, positions.is_large ? reinterpret_cast<const MPI_Count*>(list)[i]
                                                        : ArgumentWord{reinterpret_cast<const int*>(list)[i]});
  return members ? (sum + static_cast<std::uint64_t>(members) - 1) / static_cast<std::uint64_t>(members) : 0;
}

// Returns the number of bytes that this rank sends in a collective or one-sided operation. If the data for each
// destination differ, returns the bytes per destination.
std::uint64_t bytes_of_move(const ArgumentPositions& positions, const ArgumentWord* arguments,
                            const CommunicatorInfo* comm) {
  if (positions.count < 0 || (comm && comm->is_intercommunicator)) return 0;  // on intercommunicators other ranks send
  int count = positions.count, type = positions.type;
  if (count > 0 && arguments[count - 1] == reinterpret_cast<ArgumentWord>(MPI_IN_PLACE)) {
    if (positions.fallback_count < 0) return 0;
    type += positions.fallback_count - count;
    count = positions.fallback_count;
  }
  if (!positions.has_count_per_rank)
    return count_argument(positions, arguments[count]) * type_size_bytes(arguments[type]);
  const int members = !comm ? 0 : positions.is_neighborhood ? comm->num_destinations : comm->size;
  return members ? mean_count(positions, arguments[count], members) * type_size_bytes(arguments[type]) : 0;
}

void add_sent(CallObservation& observation, PeerLocation location, std::uint64_t bytes) {
  (location == PeerLocation::other_nodes ? observation.bytes_sent_to_other_nodes : observation.bytes_sent_on_node) +=
      bytes;
}

const CommunicatorInfo* communicator_of(const ArgumentPositions& positions, const ArgumentWord* arguments) {
  return positions.comm >= 0 ? find_or_add_communicator(as_handle<MPI_Comm>(arguments[positions.comm])) : nullptr;
}

void describe_send(const ArgumentPositions& positions, const ArgumentWord* arguments, CallObservation& observation) {
  const CommunicatorInfo* const comm = communicator_of(positions, arguments);
  int peer = static_cast<int>(arguments[positions.peer]), count = positions.count, type = positions.type;
  observation.is_send = peer >= 0;
  if (peer < 0 && positions.fallback_count >= 0) {
    count = positions.fallback_count, type = count + 1;
    peer = static_cast<int>(arguments[count + 2]);
  }
  observation.description.location = location_of(comm, peer);
  observation.description.num_messages = 1;
  if (observation.is_send || positions.fallback_count >= 0)
    observation.description.bytes = count_argument(positions, arguments[count]) * type_size_bytes(arguments[type]);
  if (observation.is_send) add_sent(observation, observation.description.location, observation.description.bytes);
}

void describe_receive(const ArgumentPositions& positions, const ArgumentWord* arguments, CallObservation& observation) {
  int peer = positions.peer >= 0 ? static_cast<int>(arguments[positions.peer]) : -1;
  observation.description.num_messages = 1;
  if (positions.status >= 0) {
    const auto& status = *reinterpret_cast<const MPI_Status*>(arguments[positions.status]);
    MPI_Count bytes = 0;
    PMPI(MPI_Get_elements_x)(&status, MPI_BYTE, &bytes);
    observation.description.bytes = bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
    peer = status.MPI_SOURCE;
  } else {
    observation.description.bytes =
        count_argument(positions, arguments[positions.count]) * type_size_bytes(arguments[positions.type]);
  }
  observation.description.location = location_of(communicator_of(positions, arguments), peer);
}

// ---- requests

constexpr int max_examined_requests = 64;  // requests examined per call; further requests are assumed to be similar

void describe_requests(const ArgumentPositions& positions, const ArgumentWord* arguments,
                       CallObservation& observation) {
  const auto* const handles = reinterpret_cast<const MPI_Request*>(arguments[positions.requests]);
  const int num_requests =
      positions.request_count >= 0 ? std::max(0, static_cast<int>(arguments[positions.request_count])) : 1;
  const int num_examined = std::min(num_requests, positions.action == CallAction::poll ? 1 : max_examined_requests);
  const std::uint64_t requests_per_examined =
      num_examined ? static_cast<std::uint64_t>(num_requests / num_examined) : 1;
  PendingRequest request;
  std::uint64_t num_found = 0;
  for (int i = 0; i < num_examined; ++i) {
    if (!requests::find_pending_request(as_key(handles[i]), request)) continue;
    observation.is_send |= request.is_send;
    if (request.is_send) add_sent(observation, request.location, request.bytes * requests_per_examined);
    observation.description.bytes += request.bytes * requests_per_examined;
    observation.description.category = num_found == 0 || observation.description.category == request.category
                                           ? request.category
                                           : CallCategory::completion;
    observation.description.location =
        num_found == 0 || observation.description.location == request.location ? request.location : PeerLocation::both;
    ++num_found;
  }
  observation.description.num_messages = num_found * requests_per_examined;
}

// Subtracts the requests that the call has not completed.
void subtract_incomplete(const ArgumentPositions& positions, const ArgumentWord* arguments,
                         CallDescription& description) {
  if (positions.completed_requests == CompletedRequests::all || description.num_messages == 0) return;
  const int found =
      positions.flag_or_count >= 0 ? *reinterpret_cast<const int*>(arguments[positions.flag_or_count]) : 1;
  std::uint64_t num_completed = found > 0 ? 1 : 0;
  if (positions.completed_requests == CompletedRequests::by_flag) num_completed *= description.num_messages;
  if (positions.completed_requests == CompletedRequests::by_count)
    num_completed = found == MPI_UNDEFINED || found < 0 ? 0 : static_cast<std::uint64_t>(found);
  description.bytes = description.bytes / description.num_messages * num_completed;
  description.num_messages = num_completed;
}

void add_pending_request(const ArgumentPositions& positions, const ArgumentWord* arguments,
                         const CallObservation& observation) {
  const MPI_Request request = *reinterpret_cast<const MPI_Request*>(arguments[positions.request]);
  requests::add_pending_request(as_key(request), {positions.category, observation.description.location,
                                                  observation.is_send, observation.description.bytes});
}

}  // namespace

void observe_before_call(const ArgumentPositions& positions, ArgumentWord* arguments, CallObservation& observation) {
  observation.description.category = positions.category;
  if (positions.requests >= 0) describe_requests(positions, arguments, observation);
  if (positions.status >= 0 && arguments[positions.status] == reinterpret_cast<ArgumentWord>(MPI_STATUS_IGNORE))
    arguments[positions.status] = reinterpret_cast<ArgumentWord>(observation.status);
  if (positions.action == CallAction::free)
    remove_communicator(*reinterpret_cast<MPI_Comm*>(arguments[positions.comm]));
}

void observe_after_call(const ArgumentPositions& positions, const ArgumentWord* arguments, CallObservation& observation,
                        ThreadTable& table) {
  CallDescription& description = observation.description;
  if (positions.action == CallAction::send) describe_send(positions, arguments, observation);
  if (positions.action == CallAction::receive) describe_receive(positions, arguments, observation);
  if (positions.action == CallAction::move) {
    const CommunicatorInfo* const comm = communicator_of(positions, arguments);
    if (comm) description.location = comm->location;
    description.num_messages = 1;
    description.bytes = bytes_of_move(positions, arguments, comm);
  }
  if (positions.requests >= 0) subtract_incomplete(positions, arguments, description);
  if (positions.request >= 0) add_pending_request(positions, arguments, observation);
  if (!positions.is_persistent && (positions.action == CallAction::send || positions.action == CallAction::start)) {
    table.bytes_sent_on_node += observation.bytes_sent_on_node;
    table.bytes_sent_to_other_nodes += observation.bytes_sent_to_other_nodes;
  }
  // a persistent request moves no data before its start
  if (positions.is_persistent) description.num_messages = description.bytes = 0;
}

}  // namespace nearfield::forecast

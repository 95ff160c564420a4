// Wrappers of probes and of receives of matched messages (MPI_Mrecv), which are recorded as receives with the source
// and tag of the message.
#include <unordered_map>

#include "preload/observe/mpi/live_session.hpp"
#include "preload/observe/mpi/messages.hpp"
#include "preload/observe/mpi/requests.hpp"
#include "preload/observe/mpi/wrapper.hpp"

using namespace nearfield::observe;

namespace {

// A message that MPI_Mprobe or MPI_Improbe has found and that is not received yet. `order` numbers these messages.
struct MatchedMessage {
  MPI_Comm comm;
  int source, tag;
  stream::Number order;
};

std::unordered_map<std::uint64_t, MatchedMessage>& matched_messages() {
  static auto& only = *new std::unordered_map<std::uint64_t, MatchedMessage>;  // never destroyed, as in call.cpp
  return only;
}

struct ProbeTarget {
  int source, tag;
  MPI_Comm comm;
};

void record_probe(const ProbeTarget& wanted, bool waited, bool found, const MPI_Status& status) {
  if (found && wanted.source == MPI_PROC_NULL) record(stream::Outcome{0, stream::proc_null, stream::any, 0});
  if (found && wanted.source != MPI_PROC_NULL) record_outcome(0, status);
  const std::int64_t tag = wanted.tag == MPI_ANY_TAG ? stream::any : wanted.tag;
  record(stream::Probe{communicator_number(wanted.comm), peer_of(wanted.source), tag, waited, found});
}

// Queries the simulator for a message that matches `wanted`, and replaces wildcards in `wanted` by the message's source
// and tag. Returns whether there is a message.
bool query_message(ProbeTarget& wanted, bool waited) {
  if (wanted.source == MPI_PROC_NULL) return true;
  if (!matched_messages().empty())
    mark_unsupported("a probe before a matched message is received, in a live simulation");
  stream::Query question{stream::Question::message, {},        waited, communicator_number(wanted.comm),
                         peer_of(wanted.source),    wanted.tag};
  if (wanted.tag == MPI_ANY_TAG) question.tag = stream::any;
  const ReplyWords answer = live_session().query_simulator(question);
  if (answer.empty()) return false;
  wanted.source = static_cast<int>(answer[0]);
  wanted.tag = static_cast<int>(answer[1]);
  return true;
}

void add_matched_message(MPI_Message message, MPI_Comm comm, const MPI_Status& status) {
  static stream::Number order = 0;
  if (message != MPI_MESSAGE_NO_PROC)
    matched_messages()[key_of(message)] = {comm, status.MPI_SOURCE, status.MPI_TAG, ++order};
}

// Returns the receive event of a matched message, and forgets the message.
template <class Count>
stream::Receive receive_event_of_matched(MPI_Message message, void* buffer, Count count, MPI_Datatype type) {
  const auto found = matched_messages().find(key_of(message));
  if (found == matched_messages().end())
    return receive_event(buffer, count, type, MPI_PROC_NULL, MPI_ANY_TAG, MPI_COMM_WORLD);  // MPI_MESSAGE_NO_PROC
  const MatchedMessage matched_message = found->second;
  matched_messages().erase(found);
  const stream::Receive event{0, communicator_number(matched_message.comm), matched_message.source, matched_message.tag,
                              data_of_buffer(buffer, count, type)};
  check_receive_order(event, matched_message.order);
  return event;
}

}  // namespace

void nearfield::observe::check_receive_order(const stream::Receive& receive, stream::Number order) {
  for (const auto& [message, other] : matched_messages()) {
    const bool is_of_source = receive.peer == stream::any || receive.peer == other.source;
    const bool is_of_tag = receive.tag == stream::any || receive.tag == other.tag;
    if (other.order < order && receive.communicator == communicator_number(other.comm) && is_of_source && is_of_tag)
      mark_unsupported("a matched message that is received after a later one");
  }
}

WRAPPED(MPI_Probe, (int source, int tag, MPI_Comm comm, MPI_Status* status), (source, tag, comm, status)) {
  MPI_Status own, *const used = status == MPI_STATUS_IGNORE ? &own : status;
  ProbeTarget which{source, tag, comm};
  if (is_live()) query_message(which, true);
  const int result = PMPI(MPI_Probe)(which.source, which.tag, comm, used);
  if (call.succeeded(result)) record_probe({source, tag, comm}, true, true, *used);
  return result;
}

WRAPPED(MPI_Iprobe, (int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status),
        (source, tag, comm, flag, status)) {
  MPI_Status own, *const used = status == MPI_STATUS_IGNORE ? &own : status;
  ProbeTarget which{source, tag, comm};
  if (is_live()) *flag = query_message(which, false);
  const int result = !is_live() ? PMPI(MPI_Iprobe)(source, tag, comm, flag, used)
                     : *flag    ? PMPI(MPI_Probe)(which.source, which.tag, comm, used)
                                : MPI_SUCCESS;
  if (call.succeeded(result)) record_probe({source, tag, comm}, false, *flag, *used);
  return result;
}

WRAPPED(MPI_Mprobe, (int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status),
        (source, tag, comm, message, status)) {
  MPI_Status own, *const used = status == MPI_STATUS_IGNORE ? &own : status;
  ProbeTarget which{source, tag, comm};
  if (is_live()) query_message(which, true);
  const int result = PMPI(MPI_Mprobe)(which.source, which.tag, comm, message, used);
  if (!call.succeeded(result)) return result;
  add_matched_message(*message, comm, *used);
  record_probe({source, tag, comm}, true, true, *used);
  return result;
}

WRAPPED(MPI_Improbe, (int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message, MPI_Status* status),
        (source, tag, comm, flag, message, status)) {
  MPI_Status own, *const used = status == MPI_STATUS_IGNORE ? &own : status;
  ProbeTarget which{source, tag, comm};
  if (is_live()) *flag = query_message(which, false);
  const int result = !is_live() ? PMPI(MPI_Improbe)(source, tag, comm, flag, message, used)
                     : *flag    ? PMPI(MPI_Mprobe)(which.source, which.tag, comm, message, used)
                                : MPI_SUCCESS;
  if (!call.succeeded(result)) return result;
  if (*flag) add_matched_message(*message, comm, *used);
  record_probe({source, tag, comm}, false, *flag, *used);
  return result;
}

#define RECEIVES_MATCHED(name, Count)                                                                     \
  WRAPPED(name, (void* buffer, Count count, MPI_Datatype type, MPI_Message* message, MPI_Status* status), \
          (buffer, count, type, message, status)) {                                                       \
    MPI_Status own, *const used = status == MPI_STATUS_IGNORE ? &own : status;                            \
    const MPI_Message wanted = *message;                                                                  \
    const int result = PMPI(name)(buffer, count, type, message, used);                                    \
    if (!call.succeeded(result)) return result;                                                           \
    const auto request = record_start_of(receive_event_of_matched(wanted, buffer, count, type));          \
    record_outcome(request, *used);                                                                       \
    record_completed({request});                                                                          \
    return result;                                                                                        \
  }

#define BEGINS_TO_RECEIVE_MATCHED(name, Count)                                                                  \
  WRAPPED(name, (void* buffer, Count count, MPI_Datatype type, MPI_Message* message, MPI_Request* request),     \
          (buffer, count, type, message, request)) {                                                            \
    const MPI_Message wanted = *message;                                                                        \
    const int result = PMPI(name)(buffer, count, type, message, request);                                       \
    if (!call.succeeded(result)) return result;                                                                 \
    Request pending;                                                                                            \
    if (is_live()) {                                                                                            \
      pending = make_placeholder_request(                                                                       \
          live_session().adopt_receive(receive_event_of_matched(wanted, buffer, count, type), *request), true); \
      *request = live_session().acquire_placeholder();                                                          \
    } else {                                                                                                    \
      pending.number = record_start_of(receive_event_of_matched(wanted, buffer, count, type));                  \
      pending.is_receive = true;                                                                                \
    }                                                                                                           \
    pending.is_to_nobody = wanted == MPI_MESSAGE_NO_PROC;                                                       \
    requests().add(request, std::move(pending));                                                                \
    return result;                                                                                              \
  }

RECEIVES_MATCHED(MPI_Mrecv, int)
BEGINS_TO_RECEIVE_MATCHED(MPI_Imrecv, int)
#if MPI_VERSION >= 4
RECEIVES_MATCHED(MPI_Mrecv_c, MPI_Count)
BEGINS_TO_RECEIVE_MATCHED(MPI_Imrecv_c, MPI_Count)
#endif

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
  static auto& instance = *new std::unordered_map<std::uint64_t, MatchedMessage>;  // never destroyed, as in call.cpp
  return instance;
}

struct ProbeTarget {
  int source, tag;
  MPI_Comm comm;
};

void record_probe(const ProbeTarget& target, bool is_blocking, bool has_message, const MPI_Status& status) {
  if (has_message && target.source == MPI_PROC_NULL)
    record_event(stream::Outcome{0, stream::proc_null, stream::any_source_or_tag, 0});
  if (has_message && target.source != MPI_PROC_NULL) record_outcome(0, status);
  const std::int64_t tag = target.tag == MPI_ANY_TAG ? stream::any_source_or_tag : target.tag;
  record_event(
      stream::Probe{communicator_number(target.comm), to_stream_rank(target.source), tag, is_blocking, has_message});
}

// Queries the simulator for a message that matches `target`, and replaces wildcards in `target` by the message's source
// and tag. Returns whether there is a message.
bool query_message(ProbeTarget& target, bool is_blocking) {
  if (target.source == MPI_PROC_NULL) return true;
  if (!matched_messages().empty())
    mark_unsupported("a probe before a matched message is received, in a live simulation");
  stream::Query query{stream::QueryKind::probed_message, {},        is_blocking, communicator_number(target.comm),
                      to_stream_rank(target.source),     target.tag};
  if (target.tag == MPI_ANY_TAG) query.tag = stream::any_source_or_tag;
  const ReplyWords reply = live_session().query_simulator(query);
  if (reply.empty()) return false;
  target.source = static_cast<int>(reply[0]);
  target.tag = static_cast<int>(reply[1]);
  return true;
}

void add_matched_message(MPI_Message message, MPI_Comm comm, const MPI_Status& status) {
  static stream::Number order = 0;
  if (message != MPI_MESSAGE_NO_PROC)
    matched_messages()[key_of_handle(message)] = {comm, status.MPI_SOURCE, status.MPI_TAG, ++order};
}

// Returns the receive event of a matched message, and forgets the message.
template <class Count>
stream::Receive make_receive_event_of_matched(MPI_Message message, void* buffer, Count count, MPI_Datatype type) {
  const auto found = matched_messages().find(key_of_handle(message));
  if (found == matched_messages().end())
    return make_receive_event(buffer, count, type, MPI_PROC_NULL, MPI_ANY_TAG, MPI_COMM_WORLD);  // MPI_MESSAGE_NO_PROC
  const MatchedMessage matched_message = found->second;
  matched_messages().erase(found);
  const stream::Receive event{0, communicator_number(matched_message.comm), matched_message.source, matched_message.tag,
                              describe_buffer(buffer, count, type)};
  check_receive_order(event, matched_message.order);
  return event;
}

}  // namespace

void nearfield::observe::check_receive_order(const stream::Receive& receive, stream::Number matched_order) {
  for (const auto& [message, other] : matched_messages()) {
    const bool matches_source = receive.peer == stream::any_source_or_tag || receive.peer == other.source;
    const bool matches_tag = receive.tag == stream::any_source_or_tag || receive.tag == other.tag;
    if (other.order < matched_order && receive.communicator == communicator_number(other.comm) && matches_source &&
        matches_tag)
      mark_unsupported("a matched message that is received after a later one");
  }
}

DEFINE_WRAPPER(MPI_Probe, (int source, int tag, MPI_Comm comm, MPI_Status* status), (source, tag, comm, status)) {
  MPI_Status temporary_status, *const status_to_write = status == MPI_STATUS_IGNORE ? &temporary_status : status;
  ProbeTarget target{source, tag, comm};
  if (is_live()) query_message(target, true);
  const int result = PMPI(MPI_Probe)(target.source, target.tag, comm, status_to_write);
  if (call.succeeded(result)) record_probe({source, tag, comm}, true, true, *status_to_write);
  return result;
}

DEFINE_WRAPPER(MPI_Iprobe, (int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status),
               (source, tag, comm, flag, status)) {
  MPI_Status temporary_status, *const status_to_write = status == MPI_STATUS_IGNORE ? &temporary_status : status;
  ProbeTarget target{source, tag, comm};
  if (is_live()) *flag = query_message(target, false);
  const int result = !is_live() ? PMPI(MPI_Iprobe)(source, tag, comm, flag, status_to_write)
                     : *flag    ? PMPI(MPI_Probe)(target.source, target.tag, comm, status_to_write)
                                : MPI_SUCCESS;
  if (call.succeeded(result)) record_probe({source, tag, comm}, false, *flag, *status_to_write);
  return result;
}

DEFINE_WRAPPER(MPI_Mprobe, (int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status),
               (source, tag, comm, message, status)) {
  MPI_Status temporary_status, *const status_to_write = status == MPI_STATUS_IGNORE ? &temporary_status : status;
  ProbeTarget target{source, tag, comm};
  if (is_live()) query_message(target, true);
  const int result = PMPI(MPI_Mprobe)(target.source, target.tag, comm, message, status_to_write);
  if (!call.succeeded(result)) return result;
  add_matched_message(*message, comm, *status_to_write);
  record_probe({source, tag, comm}, true, true, *status_to_write);
  return result;
}

DEFINE_WRAPPER(MPI_Improbe, (int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message, MPI_Status* status),
               (source, tag, comm, flag, message, status)) {
  MPI_Status temporary_status, *const status_to_write = status == MPI_STATUS_IGNORE ? &temporary_status : status;
  ProbeTarget target{source, tag, comm};
  if (is_live()) *flag = query_message(target, false);
  const int result = !is_live() ? PMPI(MPI_Improbe)(source, tag, comm, flag, message, status_to_write)
                     : *flag    ? PMPI(MPI_Mprobe)(target.source, target.tag, comm, message, status_to_write)
                                : MPI_SUCCESS;
  if (!call.succeeded(result)) return result;
  if (*flag) add_matched_message(*message, comm, *status_to_write);
  record_probe({source, tag, comm}, false, *flag, *status_to_write);
  return result;
}

#define WRAP_MRECV(name, Count)                                                                                     \
  DEFINE_WRAPPER(name, (void* buffer, Count count, MPI_Datatype type, MPI_Message* message, MPI_Status* status),    \
                 (buffer, count, type, message, status)) {                                                          \
    MPI_Status temporary_status, *const status_to_write = status == MPI_STATUS_IGNORE ? &temporary_status : status; \
    const MPI_Message matched_message = *message;                                                                   \
    const int result = PMPI(name)(buffer, count, type, message, status_to_write);                                   \
    if (!call.succeeded(result)) return result;                                                                     \
    const auto request = record_start_of(make_receive_event_of_matched(matched_message, buffer, count, type));      \
    record_outcome(request, *status_to_write);                                                                      \
    record_wait_completed({request});                                                                               \
    return result;                                                                                                  \
  }

#define WRAP_IMRECV(name, Count)                                                                                       \
  DEFINE_WRAPPER(name, (void* buffer, Count count, MPI_Datatype type, MPI_Message* message, MPI_Request* request),     \
                 (buffer, count, type, message, request)) {                                                            \
    const MPI_Message matched_message = *message;                                                                      \
    const int result = PMPI(name)(buffer, count, type, message, request);                                              \
    if (!call.succeeded(result)) return result;                                                                        \
    Request pending;                                                                                                   \
    if (is_live()) {                                                                                                   \
      pending =                                                                                                        \
          make_placeholder_request(live_session().add_posted_receive(                                                  \
                                       make_receive_event_of_matched(matched_message, buffer, count, type), *request), \
                                   true);                                                                              \
      *request = live_session().acquire_placeholder();                                                                 \
    } else {                                                                                                           \
      pending.number = record_start_of(make_receive_event_of_matched(matched_message, buffer, count, type));           \
      pending.is_receive = true;                                                                                       \
    }                                                                                                                  \
    pending.is_to_proc_null = matched_message == MPI_MESSAGE_NO_PROC;                                                  \
    requests().add_request(request, std::move(pending));                                                               \
    return result;                                                                                                     \
  }

WRAP_MRECV(MPI_Mrecv, int)
WRAP_IMRECV(MPI_Imrecv, int)
#if MPI_VERSION >= 4
WRAP_MRECV(MPI_Mrecv_c, MPI_Count)
WRAP_IMRECV(MPI_Imrecv_c, MPI_Count)
#endif

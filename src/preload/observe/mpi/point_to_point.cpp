// Wrappers of blocking and nonblocking sends and receives. A blocking call is recorded as a nonblocking call and a
// wait.
#include "preload/observe/mpi/live_session.hpp"
#include "preload/observe/mpi/messages.hpp"
#include "preload/observe/mpi/requests.hpp"
#include "preload/observe/mpi/wrapper.hpp"

using namespace nearfield::observe;
using stream::SendMode;

namespace {

// The program's status or, if the program passes MPI_STATUS_IGNORE, a temporary status.
struct StatusOrTemporary {
  explicit StatusOrTemporary(MPI_Status* program_status)
      : pointer(program_status == MPI_STATUS_IGNORE ? &temporary : program_status) {}
  MPI_Status temporary;
  MPI_Status* const pointer;
};

// Writes a placeholder handle for the message to `*request`, in a live simulation. Returns MPI's error code.
int store_placeholder(const Call& call, MPI_Request* request, DeferredRequestPointer live_message, int peer,
                      bool is_receive) {
  if (!call.succeeded(live_message->post_error)) return live_message->post_error;
  *request = live_session().acquire_placeholder();
  Request entry = make_placeholder_request(std::move(live_message), is_receive);
  entry.is_to_proc_null = is_receive && peer == MPI_PROC_NULL;
  requests().add_request(request, std::move(entry));
  return MPI_SUCCESS;
}

void record_receive_outcome(stream::Number request, int source, const MPI_Status& status) {
  if (source == MPI_PROC_NULL)
    record_event(stream::Outcome{request, stream::proc_null, stream::any_source_or_tag, 0});
  else
    record_outcome(request, status);
}

int finish_send(const Call& call, const DeferredRequest& live_message) {
  if (!call.succeeded(live_message.post_error)) return live_message.post_error;
  record_wait_started({live_message.number});
  record_wait_completed({live_message.number});
  return MPI_SUCCESS;
}

int finish_receive(DeferredRequest& live_message, int source, MPI_Status* status) {
  record_wait_started({live_message.number});
  const int result = live_session().complete_message(live_message, status);
  if (result == MPI_SUCCESS) record_receive_outcome(live_message.number, source, *status);
  if (result == MPI_SUCCESS) record_wait_completed({live_message.number});
  return result;
}

}  // namespace

#define WRAP_SEND(name, Count, mode)                                                                                  \
  DEFINE_WRAPPER(name, (const void* buffer, Count count, MPI_Datatype type, int destination, int tag, MPI_Comm comm), \
                 (buffer, count, type, destination, tag, comm)) {                                                     \
    if (is_live())                                                                                                    \
      return finish_send(call, *live_session().send_buffered(mode, buffer, count, type, destination, tag, comm));     \
    const int result = PMPI(name)(buffer, count, type, destination, tag, comm);                                       \
    if (call.succeeded(result))                                                                                       \
      record_wait_completed({record_start_of(make_send_event(mode, buffer, count, type, destination, tag, comm))});   \
    return result;                                                                                                    \
  }

#define WRAP_ISEND(name, Count, mode)                                                                           \
  DEFINE_WRAPPER(name,                                                                                          \
                 (const void* buffer, Count count, MPI_Datatype type, int destination, int tag, MPI_Comm comm,  \
                  MPI_Request* request),                                                                        \
                 (buffer, count, type, destination, tag, comm, request)) {                                      \
    if (is_live())                                                                                              \
      return store_placeholder(call, request,                                                                   \
                               live_session().send_buffered(mode, buffer, count, type, destination, tag, comm), \
                               destination, false);                                                             \
    const int result = PMPI(name)(buffer, count, type, destination, tag, comm, request);                        \
    if (!call.succeeded(result)) return result;                                                                 \
    Request pending;                                                                                            \
    pending.number = record_start_of(make_send_event(mode, buffer, count, type, destination, tag, comm));       \
    requests().add_request(request, std::move(pending));                                                        \
    return result;                                                                                              \
  }

#define WRAP_RECV(name, Irecv, Count)                                                                                 \
  DEFINE_WRAPPER(                                                                                                     \
      name, (void* buffer, Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status* status),   \
      (buffer, count, type, source, tag, comm, status)) {                                                             \
    const StatusOrTemporary status_to_write(status);                                                                  \
    if (is_live()) {                                                                                                  \
      const auto live_message = live_session().receive_or_defer(PMPI(Irecv), buffer, count, type, source, tag, comm); \
      const int done = finish_receive(*live_message, source, status_to_write.pointer);                                \
      call.succeeded(done);                                                                                           \
      return done;                                                                                                    \
    }                                                                                                                 \
    const int result = PMPI(name)(buffer, count, type, source, tag, comm, status_to_write.pointer);                   \
    if (!call.succeeded(result)) return result;                                                                       \
    const auto request = record_start_of(make_receive_event(buffer, count, type, source, tag, comm));                 \
    record_receive_outcome(request, source, *status_to_write.pointer);                                                \
    record_wait_completed({request});                                                                                 \
    return result;                                                                                                    \
  }

#define WRAP_IRECV(name, Count)                                                                                       \
  DEFINE_WRAPPER(                                                                                                     \
      name, (void* buffer, Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request* request), \
      (buffer, count, type, source, tag, comm, request)) {                                                            \
    if (is_live())                                                                                                    \
      return store_placeholder(call, request,                                                                         \
                               live_session().receive_or_defer(PMPI(name), buffer, count, type, source, tag, comm),   \
                               source, true);                                                                         \
    const int result = PMPI(name)(buffer, count, type, source, tag, comm, request);                                   \
    if (!call.succeeded(result)) return result;                                                                       \
    Request pending;                                                                                                  \
    pending.number = record_start_of(make_receive_event(buffer, count, type, source, tag, comm));                     \
    pending.is_receive = true;                                                                                        \
    pending.is_to_proc_null = source == MPI_PROC_NULL;                                                                \
    requests().add_request(request, std::move(pending));                                                              \
    return result;                                                                                                    \
  }

#define WRAP_EXCHANGE(name, Irecv, parameters, arguments, out, out_count, out_type, in, in_count, in_type)          \
  DEFINE_WRAPPER(name, parameters, (UNPARENTHESIZED arguments, status)) {                                           \
    const StatusOrTemporary status_to_write(status);                                                                \
    if (is_live()) {                                                                                                \
      const auto send =                                                                                             \
          live_session().send_buffered(SendMode::standard, out, out_count, out_type, destination, tag_out, comm);   \
      const auto live_message =                                                                                     \
          live_session().receive_or_defer(PMPI(Irecv), in, in_count, in_type, source, tag_in, comm);                \
      record_wait_started({send->number, live_message->number});                                                    \
      const int done = live_session().complete_message(*live_message, status_to_write.pointer);                     \
      if (!call.succeeded(done)) return done;                                                                       \
      record_receive_outcome(live_message->number, source, *status_to_write.pointer);                               \
      record_wait_completed({live_message->number, send->number});                                                  \
      return done;                                                                                                  \
    }                                                                                                               \
    const int result = PMPI(name)(UNPARENTHESIZED arguments, status_to_write.pointer);                              \
    if (!call.succeeded(result)) return result;                                                                     \
    const auto receive = record_start_of(make_receive_event(in, in_count, in_type, source, tag_in, comm));          \
    const auto send =                                                                                               \
        record_start_of(make_send_event(SendMode::standard, out, out_count, out_type, destination, tag_out, comm)); \
    record_receive_outcome(receive, source, *status_to_write.pointer);                                              \
    record_wait_completed({receive, send});                                                                         \
    return result;                                                                                                  \
  }

#define WRAP_SENDRECV(name, Irecv, Count)                                                                           \
  WRAP_EXCHANGE(name, Irecv,                                                                                        \
                (const void* out, Count out_count, MPI_Datatype out_type, int destination, int tag_out, void* in,   \
                 Count in_count, MPI_Datatype in_type, int source, int tag_in, MPI_Comm comm, MPI_Status* status),  \
                (out, out_count, out_type, destination, tag_out, in, in_count, in_type, source, tag_in, comm), out, \
                out_count, out_type, in, in_count, in_type)

#define WRAP_SENDRECV_REPLACE(name, Irecv, Count)                                                                      \
  WRAP_EXCHANGE(name, Irecv,                                                                                           \
                (void* buffer, Count count, MPI_Datatype type, int destination, int tag_out, int source, int tag_in,   \
                 MPI_Comm comm, MPI_Status* status),                                                                   \
                (buffer, count, type, destination, tag_out, source, tag_in, comm), buffer, count, type, buffer, count, \
                type)

#define WRAP_ALL(suffix, Count)                                 \
  WRAP_SEND(MPI_Send##suffix, Count, SendMode::standard)        \
  WRAP_SEND(MPI_Ssend##suffix, Count, SendMode::synchronous)    \
  WRAP_SEND(MPI_Bsend##suffix, Count, SendMode::buffered)       \
  WRAP_SEND(MPI_Rsend##suffix, Count, SendMode::ready)          \
  WRAP_ISEND(MPI_Isend##suffix, Count, SendMode::standard)      \
  WRAP_ISEND(MPI_Issend##suffix, Count, SendMode::synchronous)  \
  WRAP_ISEND(MPI_Ibsend##suffix, Count, SendMode::buffered)     \
  WRAP_ISEND(MPI_Irsend##suffix, Count, SendMode::ready)        \
  WRAP_RECV(MPI_Recv##suffix, MPI_Irecv##suffix, Count)         \
  WRAP_IRECV(MPI_Irecv##suffix, Count)                          \
  WRAP_SENDRECV(MPI_Sendrecv##suffix, MPI_Irecv##suffix, Count) \
  WRAP_SENDRECV_REPLACE(MPI_Sendrecv_replace##suffix, MPI_Irecv##suffix, Count)

WRAP_ALL(, int)
#if MPI_VERSION >= 4
WRAP_ALL(_c, MPI_Count)
#endif
#undef WRAP_ALL

// Wrappers of blocking and nonblocking sends and receives. A blocking call is recorded as a nonblocking call and a
// wait.
#include "preload/observe/mpi/live_session.hpp"
#include "preload/observe/mpi/messages.hpp"
#include "preload/observe/mpi/requests.hpp"
#include "preload/observe/mpi/wrapper.hpp"

using namespace nearfield::observe;
using stream::Mode;

namespace {

// The program's status or, if the program passes MPI_STATUS_IGNORE, a temporary status.
struct StatusOrTemporary {
  explicit StatusOrTemporary(MPI_Status* wanted) : used(wanted == MPI_STATUS_IGNORE ? &own : wanted) {}
  MPI_Status own;
  MPI_Status* const used;
};

// Writes a placeholder handle for the message to `*request`, in a live simulation. Returns MPI's error code.
int give_placeholder(const Call& call, MPI_Request* request, DeferredMessage held, int peer, bool is_receive) {
  if (!call.succeeded(held->error)) return held->error;
  *request = live_session().acquire_placeholder();
  Request entry = make_placeholder_request(std::move(held), is_receive);
  entry.is_to_nobody = is_receive && peer == MPI_PROC_NULL;
  requests().add(request, std::move(entry));
  return MPI_SUCCESS;
}

void record_receive_outcome(stream::Number request, int source, const MPI_Status& status) {
  if (source == MPI_PROC_NULL)
    record(stream::Outcome{request, stream::proc_null, stream::any, 0});
  else
    record_outcome(request, status);
}

int finish_send(const Call& call, const DeferredRequest& held) {
  if (!call.succeeded(held.error)) return held.error;
  record_wait_started({held.number});
  record_completed({held.number});
  return MPI_SUCCESS;
}

int finish_receive(DeferredRequest& held, int source, MPI_Status* status) {
  record_wait_started({held.number});
  const int result = live_session().complete_message(held, status);
  if (result == MPI_SUCCESS) record_receive_outcome(held.number, source, *status);
  if (result == MPI_SUCCESS) record_completed({held.number});
  return result;
}

}  // namespace

#define SENDS(name, Count, mode)                                                                                  \
  WRAPPED(name, (const void* buffer, Count count, MPI_Datatype type, int destination, int tag, MPI_Comm comm),    \
          (buffer, count, type, destination, tag, comm)) {                                                        \
    if (is_live())                                                                                                \
      return finish_send(call, *live_session().send_buffered(mode, buffer, count, type, destination, tag, comm)); \
    const int result = PMPI(name)(buffer, count, type, destination, tag, comm);                                   \
    if (call.succeeded(result))                                                                                   \
      record_completed({record_start_of(send_event(mode, buffer, count, type, destination, tag, comm))});         \
    return result;                                                                                                \
  }

#define BEGINS_TO_SEND(name, Count, mode)                                                                      \
  WRAPPED(name,                                                                                                \
          (const void* buffer, Count count, MPI_Datatype type, int destination, int tag, MPI_Comm comm,        \
           MPI_Request* request),                                                                              \
          (buffer, count, type, destination, tag, comm, request)) {                                            \
    if (is_live())                                                                                             \
      return give_placeholder(call, request,                                                                   \
                              live_session().send_buffered(mode, buffer, count, type, destination, tag, comm), \
                              destination, false);                                                             \
    const int result = PMPI(name)(buffer, count, type, destination, tag, comm, request);                       \
    if (!call.succeeded(result)) return result;                                                                \
    Request pending;                                                                                           \
    pending.number = record_start_of(send_event(mode, buffer, count, type, destination, tag, comm));           \
    requests().add(request, std::move(pending));                                                               \
    return result;                                                                                             \
  }

#define RECEIVES(name, own, Count)                                                                                \
  WRAPPED(name,                                                                                                   \
          (void* buffer, Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status* status), \
          (buffer, count, type, source, tag, comm, status)) {                                                     \
    const StatusOrTemporary status_of(status);                                                                    \
    if (is_live()) {                                                                                              \
      const auto held = live_session().receive_or_defer(PMPI(own), buffer, count, type, source, tag, comm);       \
      const int done = finish_receive(*held, source, status_of.used);                                             \
      call.succeeded(done);                                                                                       \
      return done;                                                                                                \
    }                                                                                                             \
    const int result = PMPI(name)(buffer, count, type, source, tag, comm, status_of.used);                        \
    if (!call.succeeded(result)) return result;                                                                   \
    const auto request = record_start_of(receive_event(buffer, count, type, source, tag, comm));                  \
    record_receive_outcome(request, source, *status_of.used);                                                     \
    record_completed({request});                                                                                  \
    return result;                                                                                                \
  }

#define BEGINS_TO_RECEIVE(name, Count)                                                                              \
  WRAPPED(name,                                                                                                     \
          (void* buffer, Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request* request), \
          (buffer, count, type, source, tag, comm, request)) {                                                      \
    if (is_live())                                                                                                  \
      return give_placeholder(call, request,                                                                        \
                              live_session().receive_or_defer(PMPI(name), buffer, count, type, source, tag, comm),  \
                              source, true);                                                                        \
    const int result = PMPI(name)(buffer, count, type, source, tag, comm, request);                                 \
    if (!call.succeeded(result)) return result;                                                                     \
    Request pending;                                                                                                \
    pending.number = record_start_of(receive_event(buffer, count, type, source, tag, comm));                        \
    pending.is_receive = true;                                                                                      \
    pending.is_to_nobody = source == MPI_PROC_NULL;                                                                 \
    requests().add(request, std::move(pending));                                                                    \
    return result;                                                                                                  \
  }

#define EXCHANGES(name, Irecv, parameters, arguments, out, n_out, t_out, in, n_in, t_in)                             \
  WRAPPED(name, parameters, (LIST arguments, status)) {                                                              \
    const StatusOrTemporary status_of(status);                                                                       \
    if (is_live()) {                                                                                                 \
      const auto send = live_session().send_buffered(Mode::standard, out, n_out, t_out, destination, tag_out, comm); \
      const auto held = live_session().receive_or_defer(PMPI(Irecv), in, n_in, t_in, source, tag_in, comm);          \
      record_wait_started({send->number, held->number});                                                             \
      const int done = live_session().complete_message(*held, status_of.used);                                       \
      if (!call.succeeded(done)) return done;                                                                        \
      record_receive_outcome(held->number, source, *status_of.used);                                                 \
      record_completed({held->number, send->number});                                                                \
      return done;                                                                                                   \
    }                                                                                                                \
    const int result = PMPI(name)(LIST arguments, status_of.used);                                                   \
    if (!call.succeeded(result)) return result;                                                                      \
    const auto receive = record_start_of(receive_event(in, n_in, t_in, source, tag_in, comm));                       \
    const auto send = record_start_of(send_event(Mode::standard, out, n_out, t_out, destination, tag_out, comm));    \
    record_receive_outcome(receive, source, *status_of.used);                                                        \
    record_completed({receive, send});                                                                               \
    return result;                                                                                                   \
  }

#define SENDRECV(name, Irecv, Count)                                                                                \
  EXCHANGES(name, Irecv,                                                                                            \
            (const void* out, Count n_out, MPI_Datatype t_out, int destination, int tag_out, void* in, Count n_in,  \
             MPI_Datatype t_in, int source, int tag_in, MPI_Comm comm, MPI_Status* status),                         \
            (out, n_out, t_out, destination, tag_out, in, n_in, t_in, source, tag_in, comm), out, n_out, t_out, in, \
            n_in, t_in)

#define SENDRECV_REPLACE(name, Irecv, Count)                                                                       \
  EXCHANGES(name, Irecv,                                                                                           \
            (void* buffer, Count count, MPI_Datatype type, int destination, int tag_out, int source, int tag_in,   \
             MPI_Comm comm, MPI_Status* status),                                                                   \
            (buffer, count, type, destination, tag_out, source, tag_in, comm), buffer, count, type, buffer, count, \
            type)

#define ALL(suffix, Count)                                     \
  SENDS(MPI_Send##suffix, Count, Mode::standard)               \
  SENDS(MPI_Ssend##suffix, Count, Mode::synchronous)           \
  SENDS(MPI_Bsend##suffix, Count, Mode::buffered)              \
  SENDS(MPI_Rsend##suffix, Count, Mode::ready)                 \
  BEGINS_TO_SEND(MPI_Isend##suffix, Count, Mode::standard)     \
  BEGINS_TO_SEND(MPI_Issend##suffix, Count, Mode::synchronous) \
  BEGINS_TO_SEND(MPI_Ibsend##suffix, Count, Mode::buffered)    \
  BEGINS_TO_SEND(MPI_Irsend##suffix, Count, Mode::ready)       \
  RECEIVES(MPI_Recv##suffix, MPI_Irecv##suffix, Count)         \
  BEGINS_TO_RECEIVE(MPI_Irecv##suffix, Count)                  \
  SENDRECV(MPI_Sendrecv##suffix, MPI_Irecv##suffix, Count)     \
  SENDRECV_REPLACE(MPI_Sendrecv_replace##suffix, MPI_Irecv##suffix, Count)

ALL(, int)
#if MPI_VERSION >= 4
ALL(_c, MPI_Count)
#endif
#undef ALL

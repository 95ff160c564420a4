// Sends and receives, blocking and not. A blocking one is recorded as its nonblocking one and a wait.
#include "observe/mpi/held.hpp"
#include "observe/mpi/messages.hpp"
#include "observe/mpi/requests.hpp"
#include "observe/mpi/wrapper.hpp"

using namespace nearfield::observe;
using stream::Mode;

namespace {

// The program's status, or one of our own if it wants none.
struct StatusOf {
  explicit StatusOf(MPI_Status* wanted) : used(wanted == MPI_STATUS_IGNORE ? &own : wanted) {}
  MPI_Status own;
  MPI_Status* const used;
};

// Where a simulation decides, the program gets a handle that stands for the message.
int begun(const Call& call, MPI_Request* request, std::shared_ptr<Held> held, int peer, bool is_receive) {
  if (!call.succeeded(held->error)) return held->error;
  *request = new_handle();
  Request its = as_request(std::move(held), is_receive);
  its.is_to_nobody = is_receive && peer == MPI_PROC_NULL;
  requests().add(request, std::move(its));
  return MPI_SUCCESS;
}

void received(stream::Number request, int source, const MPI_Status& status) {
  if (source == MPI_PROC_NULL)
    record(stream::Outcome{request, stream::proc_null, stream::any, 0});
  else
    record_outcome(request, status);
}

int sent(const Call& call, const Held& held) {
  if (!call.succeeded(held.error)) return held.error;
  record_waits({held.number});
  record_wait({held.number});
  return MPI_SUCCESS;
}

int receive(Held& held, int source, MPI_Status* status) {
  record_waits({held.number});
  const int result = finish(held, status);
  if (result == MPI_SUCCESS) received(held.number, source, *status);
  if (result == MPI_SUCCESS) record_wait({held.number});
  return result;
}

}  // namespace

#define SENDS(name, Count, mode)                                                                                     \
  WRAPPED(name, (const void* buffer, Count count, MPI_Datatype type, int destination, int tag, MPI_Comm comm),       \
          (buffer, count, type, destination, tag, comm)) {                                                           \
    if (is_asking()) return sent(call, *hold_send(mode, buffer, count, type, destination, tag, comm));               \
    const int result = PMPI(name)(buffer, count, type, destination, tag, comm);                                      \
    if (call.succeeded(result)) record_wait({start(send_event(mode, buffer, count, type, destination, tag, comm))}); \
    return result;                                                                                                   \
  }

#define BEGINS_TO_SEND(name, Count, mode)                                                                            \
  WRAPPED(name,                                                                                                      \
          (const void* buffer, Count count, MPI_Datatype type, int destination, int tag, MPI_Comm comm,              \
           MPI_Request* request),                                                                                    \
          (buffer, count, type, destination, tag, comm, request)) {                                                  \
    if (is_asking())                                                                                                 \
      return begun(call, request, hold_send(mode, buffer, count, type, destination, tag, comm), destination, false); \
    const int result = PMPI(name)(buffer, count, type, destination, tag, comm, request);                             \
    if (!call.succeeded(result)) return result;                                                                      \
    Request begun;                                                                                                   \
    begun.number = start(send_event(mode, buffer, count, type, destination, tag, comm));                             \
    requests().add(request, std::move(begun));                                                                       \
    return result;                                                                                                   \
  }

#define RECEIVES(name, own, Count)                                                                                \
  WRAPPED(name,                                                                                                   \
          (void* buffer, Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status* status), \
          (buffer, count, type, source, tag, comm, status)) {                                                     \
    const StatusOf its(status);                                                                                   \
    if (is_asking()) {                                                                                            \
      const auto held = hold_receive(PMPI(own), buffer, count, type, source, tag, comm);                          \
      const int done = receive(*held, source, its.used);                                                          \
      call.succeeded(done);                                                                                       \
      return done;                                                                                                \
    }                                                                                                             \
    const int result = PMPI(name)(buffer, count, type, source, tag, comm, its.used);                              \
    if (!call.succeeded(result)) return result;                                                                   \
    const auto request = start(receive_event(buffer, count, type, source, tag, comm));                            \
    received(request, source, *its.used);                                                                         \
    record_wait({request});                                                                                       \
    return result;                                                                                                \
  }

#define BEGINS_TO_RECEIVE(name, Count)                                                                              \
  WRAPPED(name,                                                                                                     \
          (void* buffer, Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request* request), \
          (buffer, count, type, source, tag, comm, request)) {                                                      \
    if (is_asking())                                                                                                \
      return begun(call, request, hold_receive(PMPI(name), buffer, count, type, source, tag, comm), source, true);  \
    const int result = PMPI(name)(buffer, count, type, source, tag, comm, request);                                 \
    if (!call.succeeded(result)) return result;                                                                     \
    Request begun;                                                                                                  \
    begun.number = start(receive_event(buffer, count, type, source, tag, comm));                                    \
    begun.is_receive = true;                                                                                        \
    begun.is_to_nobody = source == MPI_PROC_NULL;                                                                   \
    requests().add(request, std::move(begun));                                                                      \
    return result;                                                                                                  \
  }

#define EXCHANGES(name, Irecv, parameters, arguments, out, n_out, t_out, in, n_in, t_in)                \
  WRAPPED(name, parameters, (LIST arguments, status)) {                                                 \
    const StatusOf its(status);                                                                         \
    if (is_asking()) {                                                                                  \
      const auto out_held = hold_send(Mode::standard, out, n_out, t_out, destination, tag_out, comm);   \
      const auto held = hold_receive(PMPI(Irecv), in, n_in, t_in, source, tag_in, comm);                \
      record_waits({out_held->number, held->number});                                                   \
      const int done = finish(*held, its.used);                                                         \
      if (!call.succeeded(done)) return done;                                                           \
      received(held->number, source, *its.used);                                                        \
      record_wait({held->number, out_held->number});                                                    \
      return done;                                                                                      \
    }                                                                                                   \
    const int result = PMPI(name)(LIST arguments, its.used);                                            \
    if (!call.succeeded(result)) return result;                                                         \
    const auto receive = start(receive_event(in, n_in, t_in, source, tag_in, comm));                    \
    const auto send = start(send_event(Mode::standard, out, n_out, t_out, destination, tag_out, comm)); \
    received(receive, source, *its.used);                                                               \
    record_wait({receive, send});                                                                       \
    return result;                                                                                      \
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

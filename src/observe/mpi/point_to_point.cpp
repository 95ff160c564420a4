// Sends and receives, blocking and not. A blocking one is recorded as its nonblocking one and a wait.
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

void received(stream::Number request, int source, const MPI_Status& status) {
  if (source == MPI_PROC_NULL)
    record(stream::Outcome{request, stream::proc_null, stream::any, 0});
  else
    record_outcome(request, status);
}

}  // namespace

#define SENDS(name, Count, mode)                                                                                     \
  WRAPPED(name, (const void* buffer, Count count, MPI_Datatype type, int destination, int tag, MPI_Comm comm),       \
          (buffer, count, type, destination, tag, comm)) {                                                           \
    const int result = PMPI(name)(buffer, count, type, destination, tag, comm);                                      \
    if (call.succeeded(result)) record_wait({start(send_event(mode, buffer, count, type, destination, tag, comm))}); \
    return result;                                                                                                   \
  }

#define BEGINS_TO_SEND(name, Count, mode)                                                               \
  WRAPPED(name,                                                                                         \
          (const void* buffer, Count count, MPI_Datatype type, int destination, int tag, MPI_Comm comm, \
           MPI_Request* request),                                                                       \
          (buffer, count, type, destination, tag, comm, request)) {                                     \
    const int result = PMPI(name)(buffer, count, type, destination, tag, comm, request);                \
    if (!call.succeeded(result)) return result;                                                         \
    Request begun;                                                                                      \
    begun.number = start(send_event(mode, buffer, count, type, destination, tag, comm));                \
    requests().add(request, std::move(begun));                                                          \
    return result;                                                                                      \
  }

#define RECEIVES(name, Count)                                                                                     \
  WRAPPED(name,                                                                                                   \
          (void* buffer, Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status* status), \
          (buffer, count, type, source, tag, comm, status)) {                                                     \
    const StatusOf its(status);                                                                                   \
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
    const int result = PMPI(name)(buffer, count, type, source, tag, comm, request);                                 \
    if (!call.succeeded(result)) return result;                                                                     \
    Request begun;                                                                                                  \
    begun.number = start(receive_event(buffer, count, type, source, tag, comm));                                    \
    begun.is_receive = true;                                                                                        \
    begun.is_to_nobody = source == MPI_PROC_NULL;                                                                   \
    requests().add(request, std::move(begun));                                                                      \
    return result;                                                                                                  \
  }

#define EXCHANGES(name, parameters, arguments, out, n_out, t_out, in, n_in, t_in)                       \
  WRAPPED(name, parameters, (LIST arguments, status)) {                                                 \
    const StatusOf its(status);                                                                         \
    const int result = PMPI(name)(LIST arguments, its.used);                                            \
    if (!call.succeeded(result)) return result;                                                         \
    const auto receive = start(receive_event(in, n_in, t_in, source, tag_in, comm));                    \
    const auto send = start(send_event(Mode::standard, out, n_out, t_out, destination, tag_out, comm)); \
    received(receive, source, *its.used);                                                               \
    record_wait({receive, send});                                                                       \
    return result;                                                                                      \
  }

#define SENDRECV(name, Count)                                                                                       \
  EXCHANGES(name,                                                                                                   \
            (const void* out, Count n_out, MPI_Datatype t_out, int destination, int tag_out, void* in, Count n_in,  \
             MPI_Datatype t_in, int source, int tag_in, MPI_Comm comm, MPI_Status* status),                         \
            (out, n_out, t_out, destination, tag_out, in, n_in, t_in, source, tag_in, comm), out, n_out, t_out, in, \
            n_in, t_in)

#define SENDRECV_REPLACE(name, Count)                                                                              \
  EXCHANGES(name,                                                                                                  \
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
  RECEIVES(MPI_Recv##suffix, Count)                            \
  BEGINS_TO_RECEIVE(MPI_Irecv##suffix, Count)                  \
  SENDRECV(MPI_Sendrecv##suffix, Count)                        \
  SENDRECV_REPLACE(MPI_Sendrecv_replace##suffix, Count)

ALL(, int)
#if MPI_VERSION >= 4
ALL(_c, MPI_Count)
#endif
#undef ALL

// Wrappers of persistent sends and receives, of which each start is recorded as a send or receive, and of
// MPI_Request_free.
#include "preload/observe/mpi/live_session.hpp"
#include "preload/observe/mpi/messages.hpp"
#include "preload/observe/mpi/requests.hpp"
#include "preload/observe/mpi/wrapper.hpp"

using namespace nearfield::observe;
using stream::Mode;

namespace {

void record_persistent_start(MPI_Request handle) {
  Request* const request = requests().find_persistent(handle);
  if (!request) return;
  if (request->starts) {
    request->held = request->starts();
    request->number = request->held->number;
    return;
  }
  if (const auto* send = std::get_if<stream::Send>(&request->does)) request->number = record_start_of(*send);
  if (const auto* receive = std::get_if<stream::Receive>(&request->does)) request->number = record_start_of(*receive);
}

}  // namespace

#define INITIALISES_SEND(name, Count, mode)                                                             \
  WRAPPED(name,                                                                                         \
          (const void* buffer, Count count, MPI_Datatype type, int destination, int tag, MPI_Comm comm, \
           MPI_Request* request),                                                                       \
          (buffer, count, type, destination, tag, comm, request)) {                                     \
    const int result = PMPI(name)(buffer, count, type, destination, tag, comm, request);                \
    if (!call.succeeded(result)) return result;                                                         \
    Request persistent;                                                                                 \
    if (is_live())                                                                                      \
      persistent.starts = [=] {                                                                         \
        return live_session().send_buffered(mode, buffer, count, type, destination, tag, comm);         \
      };                                                                                                \
    persistent.does = send_event(mode, buffer, count, type, destination, tag, comm);                    \
    requests().add(request, std::move(persistent));                                                     \
    return result;                                                                                      \
  }

#define INITIALISES_RECEIVE(name, later, Count)                                                                     \
  WRAPPED(name,                                                                                                     \
          (void* buffer, Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request* request), \
          (buffer, count, type, source, tag, comm, request)) {                                                      \
    const int result = PMPI(name)(buffer, count, type, source, tag, comm, request);                                 \
    if (!call.succeeded(result)) return result;                                                                     \
    Request persistent;                                                                                             \
    if (is_live())                                                                                                  \
      persistent.starts = [=] {                                                                                     \
        return live_session().receive_or_defer(PMPI(later), buffer, count, type, source, tag, comm);                \
      };                                                                                                            \
    persistent.does = receive_event(buffer, count, type, source, tag, comm);                                        \
    persistent.is_receive = true;                                                                                   \
    persistent.is_to_nobody = source == MPI_PROC_NULL;                                                              \
    requests().add(request, std::move(persistent));                                                                 \
    return result;                                                                                                  \
  }

#define ALL(suffix, Count)                                           \
  INITIALISES_SEND(MPI_Send_init##suffix, Count, Mode::standard)     \
  INITIALISES_SEND(MPI_Ssend_init##suffix, Count, Mode::synchronous) \
  INITIALISES_SEND(MPI_Bsend_init##suffix, Count, Mode::buffered)    \
  INITIALISES_SEND(MPI_Rsend_init##suffix, Count, Mode::ready)       \
  INITIALISES_RECEIVE(MPI_Recv_init##suffix, MPI_Irecv##suffix, Count)

ALL(, int)
#if MPI_VERSION >= 4
ALL(_c, MPI_Count)
#endif
#undef ALL

WRAPPED(MPI_Start, (MPI_Request * request), (request)) {
  if (is_live() && requests().find_persistent(*request)) return record_persistent_start(*request), MPI_SUCCESS;
  const int result = PMPI(MPI_Start)(request);
  if (call.succeeded(result)) record_persistent_start(*request);
  return result;
}

WRAPPED(MPI_Startall, (int count, MPI_Request handles[]), (count, handles)) {
  if (is_live()) {
    for (int i = 0; i < count; ++i)
      if (requests().find_persistent(handles[i]))
        record_persistent_start(handles[i]);
      else if (const int result = PMPI(MPI_Start)(&handles[i]); !call.succeeded(result))
        return result;
    return MPI_SUCCESS;
  }
  const int result = PMPI(MPI_Startall)(count, handles);
  if (!call.succeeded(result)) return result;
  for (int i = 0; i < count; ++i) record_persistent_start(handles[i]);
  return result;
}

WRAPPED(MPI_Request_free, (MPI_Request * request), (request)) {
  std::list<Request> taken;
  requests().take_entry(request, taken);
  if (taken.front().held && taken.front().number && taken.front().is_receive)
    mark_unsupported("MPI_Request_free of a receive in a live simulation");
  const int result = PMPI(MPI_Request_free)(request);
  if (call.succeeded(result) && taken.front().number) {
    record(stream::Forget{taken.front().number});
    requests().release_number(taken.front().number);
  }
  requests().drop_entry(taken);
  return result;
}

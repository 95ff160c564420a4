// Persistent sends and receives: each start of one is recorded as what it does. And MPI_Request_free.
#include "observe/mpi/held.hpp"
#include "observe/mpi/messages.hpp"
#include "observe/mpi/requests.hpp"
#include "observe/mpi/wrapper.hpp"

using namespace nearfield::observe;
using stream::Mode;

namespace {

void started(MPI_Request handle) {
  Request* const request = requests().persistent(handle);
  if (!request) return;
  if (request->starts) {
    request->held = request->starts();
    request->number = request->held->number;
    return;
  }
  if (const auto* send = std::get_if<stream::Send>(&request->does)) request->number = start(*send);
  if (const auto* receive = std::get_if<stream::Receive>(&request->does)) request->number = start(*receive);
}

}  // namespace

#define SENDS_LATER(name, Count, mode)                                                                           \
  WRAPPED(name,                                                                                                  \
          (const void* buffer, Count count, MPI_Datatype type, int destination, int tag, MPI_Comm comm,          \
           MPI_Request* request),                                                                                \
          (buffer, count, type, destination, tag, comm, request)) {                                              \
    const int result = PMPI(name)(buffer, count, type, destination, tag, comm, request);                         \
    if (!call.succeeded(result)) return result;                                                                  \
    Request made;                                                                                                \
    if (is_asking()) made.starts = [=] { return hold_send(mode, buffer, count, type, destination, tag, comm); }; \
    made.does = send_event(mode, buffer, count, type, destination, tag, comm);                                   \
    requests().add(request, std::move(made));                                                                    \
    return result;                                                                                               \
  }

#define RECEIVES_LATER(name, later, Count)                                                                            \
  WRAPPED(name,                                                                                                       \
          (void* buffer, Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request* request),   \
          (buffer, count, type, source, tag, comm, request)) {                                                        \
    const int result = PMPI(name)(buffer, count, type, source, tag, comm, request);                                   \
    if (!call.succeeded(result)) return result;                                                                       \
    Request made;                                                                                                     \
    if (is_asking()) made.starts = [=] { return hold_receive(PMPI(later), buffer, count, type, source, tag, comm); }; \
    made.does = receive_event(buffer, count, type, source, tag, comm);                                                \
    made.is_receive = true;                                                                                           \
    made.is_to_nobody = source == MPI_PROC_NULL;                                                                      \
    requests().add(request, std::move(made));                                                                         \
    return result;                                                                                                    \
  }

#define ALL(suffix, Count)                                      \
  SENDS_LATER(MPI_Send_init##suffix, Count, Mode::standard)     \
  SENDS_LATER(MPI_Ssend_init##suffix, Count, Mode::synchronous) \
  SENDS_LATER(MPI_Bsend_init##suffix, Count, Mode::buffered)    \
  SENDS_LATER(MPI_Rsend_init##suffix, Count, Mode::ready)       \
  RECEIVES_LATER(MPI_Recv_init##suffix, MPI_Irecv##suffix, Count)

ALL(, int)
#if MPI_VERSION >= 4
ALL(_c, MPI_Count)
#endif
#undef ALL

WRAPPED(MPI_Start, (MPI_Request * request), (request)) {
  if (is_asking() && requests().persistent(*request)) return started(*request), MPI_SUCCESS;
  const int result = PMPI(MPI_Start)(request);
  if (call.succeeded(result)) started(*request);
  return result;
}

WRAPPED(MPI_Startall, (int count, MPI_Request handles[]), (count, handles)) {
  if (is_asking()) {
    for (int i = 0; i < count; ++i)
      if (requests().persistent(handles[i]))
        started(handles[i]);
      else if (const int result = PMPI(MPI_Start)(&handles[i]); !call.succeeded(result))
        return result;
    return MPI_SUCCESS;
  }
  const int result = PMPI(MPI_Startall)(count, handles);
  if (!call.succeeded(result)) return result;
  for (int i = 0; i < count; ++i) started(handles[i]);
  return result;
}

WRAPPED(MPI_Request_free, (MPI_Request * request), (request)) {
  std::list<Request> taken;
  requests().take(request, taken);
  if (taken.front().held && taken.front().number && taken.front().is_receive)
    refuse("MPI_Request_free of a receive in a program that asks its simulation");
  const int result = PMPI(MPI_Request_free)(request);
  if (call.succeeded(result) && taken.front().number) {
    record(stream::Forget{taken.front().number});
    requests().over(taken.front().number);
  }
  requests().drop(taken);
  return result;
}

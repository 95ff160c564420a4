// Wrappers of persistent sends and receives, each start of which is recorded as a send or receive, and of
// MPI_Request_free.
#include "preload/observe/mpi/live_session.hpp"
#include "preload/observe/mpi/messages.hpp"
#include "preload/observe/mpi/requests.hpp"
#include "preload/observe/mpi/wrapper.hpp"

using namespace nearfield::observe;
using stream::SendMode;

namespace {

void record_persistent_start(MPI_Request handle) {
  Request* const request = requests().find_persistent(handle);
  if (!request) return;
  if (request->start_live) {
    request->live_message = request->start_live();
    request->number = request->live_message->number;
    return;
  }
  if (const auto* send = std::get_if<stream::Send>(&request->persistent_event))
    request->number = record_start_of(*send);
  if (const auto* receive = std::get_if<stream::Receive>(&request->persistent_event))
    request->number = record_start_of(*receive);
}

}  // namespace

#define WRAP_SEND_INIT(name, Count, mode)                                                                      \
  DEFINE_WRAPPER(name,                                                                                         \
                 (const void* buffer, Count count, MPI_Datatype type, int destination, int tag, MPI_Comm comm, \
                  MPI_Request* request),                                                                       \
                 (buffer, count, type, destination, tag, comm, request)) {                                     \
    const int result = PMPI(name)(buffer, count, type, destination, tag, comm, request);                       \
    if (!call.succeeded(result)) return result;                                                                \
    Request persistent;                                                                                        \
    if (is_live())                                                                                             \
      persistent.start_live = [=] {                                                                            \
        return live_session().send_buffered(mode, buffer, count, type, destination, tag, comm);                \
      };                                                                                                       \
    persistent.persistent_event = make_send_event(mode, buffer, count, type, destination, tag, comm);          \
    requests().add_request(request, std::move(persistent));                                                    \
    return result;                                                                                             \
  }

#define WRAP_RECV_INIT(name, Irecv, Count)                                                                            \
  DEFINE_WRAPPER(                                                                                                     \
      name, (void* buffer, Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request* request), \
      (buffer, count, type, source, tag, comm, request)) {                                                            \
    const int result = PMPI(name)(buffer, count, type, source, tag, comm, request);                                   \
    if (!call.succeeded(result)) return result;                                                                       \
    Request persistent;                                                                                               \
    if (is_live())                                                                                                    \
      persistent.start_live = [=] {                                                                                   \
        return live_session().receive_or_defer(PMPI(Irecv), buffer, count, type, source, tag, comm);                  \
      };                                                                                                              \
    persistent.persistent_event = make_receive_event(buffer, count, type, source, tag, comm);                         \
    persistent.is_receive = true;                                                                                     \
    persistent.is_to_proc_null = source == MPI_PROC_NULL;                                                             \
    requests().add_request(request, std::move(persistent));                                                           \
    return result;                                                                                                    \
  }

#define WRAP_ALL(suffix, Count)                                        \
  WRAP_SEND_INIT(MPI_Send_init##suffix, Count, SendMode::standard)     \
  WRAP_SEND_INIT(MPI_Ssend_init##suffix, Count, SendMode::synchronous) \
  WRAP_SEND_INIT(MPI_Bsend_init##suffix, Count, SendMode::buffered)    \
  WRAP_SEND_INIT(MPI_Rsend_init##suffix, Count, SendMode::ready)       \
  WRAP_RECV_INIT(MPI_Recv_init##suffix, MPI_Irecv##suffix, Count)

WRAP_ALL(, int)
#if MPI_VERSION >= 4
WRAP_ALL(_c, MPI_Count)
#endif
#undef WRAP_ALL

DEFINE_WRAPPER(MPI_Start, (MPI_Request * request), (request)) {
  if (is_live() && requests().find_persistent(*request)) return record_persistent_start(*request), MPI_SUCCESS;
  const int result = PMPI(MPI_Start)(request);
  if (call.succeeded(result)) record_persistent_start(*request);
  return result;
}

DEFINE_WRAPPER(MPI_Startall, (int count, MPI_Request handles[]), (count, handles)) {
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

DEFINE_WRAPPER(MPI_Request_free, (MPI_Request * request), (request)) {
  std::list<Request> entries;
  requests().take_entry(request, entries);
  if (entries.front().live_message && entries.front().number && entries.front().is_receive)
    mark_unsupported("MPI_Request_free of a receive in a live simulation");
  const int result = PMPI(MPI_Request_free)(request);
  if (call.succeeded(result) && entries.front().number) {
    record_event(stream::RequestFreed{entries.front().number});
    requests().release_number(entries.front().number);
  }
  requests().recycle_entry(entries);
  return result;
}

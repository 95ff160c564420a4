// Wrappers of the collective operations, blocking and nonblocking.
#include "preload/observe/mpi/collective_events.hpp"
#include "preload/observe/mpi/live_session.hpp"
#include "preload/observe/mpi/requests.hpp"

using namespace nearfield::observe;
using events::Kind;

namespace {

// Returns whether `comm` is an intracommunicator. Collectives on intercommunicators, where other ranks send and
// receive, are not described by any event and mark the stream as unsupported.
bool is_recordable(MPI_Comm comm) {
  if (!find_or_add_communicator(comm).is_intercommunicator) return true;
  mark_unsupported("a collective operation on an intercommunicator");
  return false;
}

void add_pending_collective(const stream::Collective& event, const MPI_Request* request) {
  Request pending;
  pending.number = record_start_of(event);
  requests().add_request(request, std::move(pending));
}

// In a live simulation, performs a blocking collective as a nonblocking one and a wait, because the simulation must
// receive the event before the rank blocks. `begin_nonblocking(request)` calls the MPI library's nonblocking function.
template <class Begin>
int run_live_collective(const stream::Collective& event, Begin begin_nonblocking) {
  record_event(event);
  MPI_Request request;
  const int result = begin_nonblocking(&request);
  return result == MPI_SUCCESS ? live_session().wait_for_request(&request, MPI_STATUS_IGNORE) : result;
}

}  // namespace

// Defines the wrappers of the blocking and the nonblocking form of an operation. `event_expression` is an expression
// that creates the event of the operation.
#define WRAP_COLLECTIVE(Name, Iname, parameters, arguments, event_expression)                                        \
  DEFINE_WRAPPER(Name, parameters, arguments) {                                                                      \
    if (is_live() && is_recordable(comm)) {                                                                          \
      const auto begin_nonblocking = [&](auto* new_request) {                                                        \
        return PMPI(Iname)(UNPARENTHESIZED arguments, new_request);                                                  \
      };                                                                                                             \
      const int done = run_live_collective(events::event_expression, begin_nonblocking);                             \
      call.succeeded(done);                                                                                          \
      return done;                                                                                                   \
    }                                                                                                                \
    const int result = PMPI(Name) arguments;                                                                         \
    if (call.succeeded(result) && is_recordable(comm)) record_event(events::event_expression);                       \
    return result;                                                                                                   \
  }                                                                                                                  \
  DEFINE_WRAPPER(Iname, (UNPARENTHESIZED parameters, MPI_Request * request), (UNPARENTHESIZED arguments, request)) { \
    const int result = PMPI(Iname)(UNPARENTHESIZED arguments, request);                                              \
    if (call.succeeded(result) && is_recordable(comm)) add_pending_collective(events::event_expression, request);    \
    return result;                                                                                                   \
  }

#define WRAP_REDUCTION(Name, Iname, operation, Count)                                                                 \
  WRAP_COLLECTIVE(Name, Iname, (const void* in, void* out, Count count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), \
                  (in, out, count, type, op, comm), operation(in, out, count, type, op, comm))

#define WRAP_DATA_MOVEMENT(Name, Iname, Count, event_expression)                                     \
  WRAP_COLLECTIVE(Name, Iname,                                                                       \
                  (const void* in, Count in_count, MPI_Datatype in_type, void* out, Count out_count, \
                   MPI_Datatype out_type, MPI_Comm comm),                                            \
                  (in, in_count, in_type, out, out_count, out_type, comm), event_expression)

#define WRAP_ROOTED(Name, Iname, Count, operation)                                                   \
  WRAP_COLLECTIVE(Name, Iname,                                                                       \
                  (const void* in, Count in_count, MPI_Datatype in_type, void* out, Count out_count, \
                   MPI_Datatype out_type, int root, MPI_Comm comm),                                  \
                  (in, in_count, in_type, out, out_count, out_type, root, comm),                     \
                  operation(in, in_count, in_type, out, out_count, out_type, root, comm))

#define WRAP_ALLGATHERV(Name, Iname, Count, Offset, kind, sources)                                                    \
  WRAP_COLLECTIVE(                                                                                                    \
      Name, Iname,                                                                                                    \
      (const void* in, Count in_count, MPI_Datatype in_type, void* out, const Count counts[], const Offset offsets[], \
       MPI_Datatype out_type, MPI_Comm comm),                                                                         \
      (in, in_count, in_type, out, counts, offsets, out_type, comm),                                                  \
      make_event_with_listed_receives(kind, sources, in, in_count, in_type, out, counts, offsets, out_type, comm))

// `Type` and `brackets` declare one MPI_Datatype for all ranks, or an array with one per rank.
#define WRAP_ALLTOALLV(Name, Iname, Count, Offset, Type, brackets, kind, destinations, sources)                    \
  WRAP_COLLECTIVE(                                                                                                 \
      Name, Iname,                                                                                                 \
      (const void* in, const Count in_count[], const Offset offsets_in[], Type in_type brackets, void* out,        \
       const Count out_count[], const Offset offsets_out[], Type out_type brackets, MPI_Comm comm),                \
      (in, in_count, offsets_in, in_type, out, out_count, offsets_out, out_type, comm),                            \
      make_event_with_listed_parts(kind, destinations, sources, in, in_count, offsets_in, in_type, out, out_count, \
                                   offsets_out, out_type, comm))

#define WRAP_ALL(suffix, Count, Offset)                                                                                \
  WRAP_COLLECTIVE(MPI_Bcast##suffix, MPI_Ibcast##suffix,                                                               \
                  (void* buffer, Count count, MPI_Datatype type, int root, MPI_Comm comm),                             \
                  (buffer, count, type, root, comm), make_bcast_event(buffer, count, type, root, comm))                \
  WRAP_COLLECTIVE(MPI_Reduce##suffix, MPI_Ireduce##suffix,                                                             \
                  (const void* in, void* out, Count count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm),     \
                  (in, out, count, type, op, root, comm), make_reduce_event(in, out, count, type, op, root, comm))     \
  WRAP_COLLECTIVE(MPI_Reduce_scatter##suffix, MPI_Ireduce_scatter##suffix,                                             \
                  (const void* in, void* out, const Count counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm),      \
                  (in, out, counts, type, op, comm), make_reduce_scatter_event(in, out, counts, type, op, comm))       \
  WRAP_REDUCTION(MPI_Allreduce##suffix, MPI_Iallreduce##suffix, make_allreduce_event, Count)                           \
  WRAP_REDUCTION(MPI_Scan##suffix, MPI_Iscan##suffix, make_scan_event, Count)                                          \
  WRAP_REDUCTION(MPI_Exscan##suffix, MPI_Iexscan##suffix, make_exscan_event, Count)                                    \
  WRAP_REDUCTION(MPI_Reduce_scatter_block##suffix, MPI_Ireduce_scatter_block##suffix, make_reduce_scatter_block_event, \
                 Count)                                                                                                \
  WRAP_ROOTED(MPI_Gather##suffix, MPI_Igather##suffix, Count, make_gather_event)                                       \
  WRAP_ROOTED(MPI_Scatter##suffix, MPI_Iscatter##suffix, Count, make_scatter_event)                                    \
  WRAP_COLLECTIVE(MPI_Gatherv##suffix, MPI_Igatherv##suffix,                                                           \
                  (const void* in, Count in_count, MPI_Datatype in_type, void* out, const Count counts[],              \
                   const Offset offsets[], MPI_Datatype out_type, int root, MPI_Comm comm),                            \
                  (in, in_count, in_type, out, counts, offsets, out_type, root, comm),                                 \
                  make_gatherv_event(in, in_count, in_type, out, counts, offsets, out_type, root, comm))               \
  WRAP_COLLECTIVE(MPI_Scatterv##suffix, MPI_Iscatterv##suffix,                                                         \
                  (const void* in, const Count counts[], const Offset offsets[], MPI_Datatype in_type, void* out,      \
                   Count out_count, MPI_Datatype out_type, int root, MPI_Comm comm),                                   \
                  (in, counts, offsets, in_type, out, out_count, out_type, root, comm),                                \
                  make_scatterv_event(in, counts, offsets, in_type, out, out_count, out_type, root, comm))             \
  WRAP_DATA_MOVEMENT(                                                                                                  \
      MPI_Allgather##suffix, MPI_Iallgather##suffix, Count,                                                            \
      make_event_of_single_parts(Kind::allgather, in, in_count, in_type, out, out_count, out_type, comm))              \
  WRAP_DATA_MOVEMENT(                                                                                                  \
      MPI_Alltoall##suffix, MPI_Ialltoall##suffix, Count,                                                              \
      make_event_of_single_parts(Kind::alltoall, in, in_count, in_type, out, out_count, out_type, comm))               \
  WRAP_DATA_MOVEMENT(                                                                                                  \
      MPI_Neighbor_allgather##suffix, MPI_Ineighbor_allgather##suffix, Count,                                          \
      make_event_of_single_parts(Kind::neighbor_allgather, in, in_count, in_type, out, out_count, out_type, comm))     \
  WRAP_DATA_MOVEMENT(                                                                                                  \
      MPI_Neighbor_alltoall##suffix, MPI_Ineighbor_alltoall##suffix, Count,                                            \
      make_event_of_single_parts(Kind::neighbor_alltoall, in, in_count, in_type, out, out_count, out_type, comm))      \
  WRAP_ALLGATHERV(MPI_Allgatherv##suffix, MPI_Iallgatherv##suffix, Count, Offset, Kind::allgatherv,                    \
                  events::num_ranks_of(comm))                                                                          \
  WRAP_ALLGATHERV(MPI_Neighbor_allgatherv##suffix, MPI_Ineighbor_allgatherv##suffix, Count, Offset,                    \
                  Kind::neighbor_allgatherv, events::num_sources_of(comm))                                             \
  WRAP_ALLTOALLV(MPI_Alltoallv##suffix, MPI_Ialltoallv##suffix, Count, Offset, MPI_Datatype, , Kind::alltoallv,        \
                 events::num_ranks_of(comm), events::num_ranks_of(comm))                                               \
  WRAP_ALLTOALLV(MPI_Alltoallw##suffix, MPI_Ialltoallw##suffix, Count, Offset, const MPI_Datatype, [],                 \
                 Kind::alltoallw, events::num_ranks_of(comm), events::num_ranks_of(comm))                              \
  WRAP_ALLTOALLV(MPI_Neighbor_alltoallv##suffix, MPI_Ineighbor_alltoallv##suffix, Count, Offset, MPI_Datatype, ,       \
                 Kind::neighbor_alltoallv, events::num_destinations_of(comm), events::num_sources_of(comm))            \
  WRAP_ALLTOALLV(MPI_Neighbor_alltoallw##suffix, MPI_Ineighbor_alltoallw##suffix, Count, MPI_Aint, const MPI_Datatype, \
                 [], Kind::neighbor_alltoallw, events::num_destinations_of(comm), events::num_sources_of(comm))

WRAP_COLLECTIVE(MPI_Barrier, MPI_Ibarrier, (MPI_Comm comm), (comm), make_barrier_event(comm))
WRAP_ALL(, int, int)
#if MPI_VERSION >= 4
WRAP_ALL(_c, MPI_Count, MPI_Aint)
#endif
#undef WRAP_ALL

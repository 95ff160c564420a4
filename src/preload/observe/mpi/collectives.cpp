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
  if (!known_communicator(comm).is_between_groups) return true;
  mark_unsupported("a collective operation on an intercommunicator");
  return false;
}

void add_pending_collective(const stream::Collective& event, const MPI_Request* request) {
  Request pending;
  pending.number = record_start_of(event);
  requests().add(request, std::move(pending));
}

// Performs a blocking collective as a nonblocking one and a wait, in a live simulation, which must receive the event
// before the rank blocks. `begin_it(request)` calls the MPI library's nonblocking function.
template <class Begin>
int run_live_collective(const stream::Collective& event, Begin begin_it) {
  record(event);
  MPI_Request request;
  const int result = begin_it(&request);
  return result == MPI_SUCCESS ? live_session().wait_for_request(&request, MPI_STATUS_IGNORE) : result;
}

}  // namespace

// Defines the wrappers of the blocking and the nonblocking form of an operation. The expression `described` is its
// event.
#define COLLECTIVE(Name, Iname, parameters, arguments, described)                                          \
  WRAPPED(Name, parameters, arguments) {                                                                   \
    if (is_live() && is_recordable(comm)) {                                                                \
      const auto begin_it = [&](auto* it) { return PMPI(Iname)(LIST arguments, it); };                     \
      const int done = run_live_collective(events::described, begin_it);                                   \
      call.succeeded(done);                                                                                \
      return done;                                                                                         \
    }                                                                                                      \
    const int result = PMPI(Name) arguments;                                                               \
    if (call.succeeded(result) && is_recordable(comm)) record(events::described);                          \
    return result;                                                                                         \
  }                                                                                                        \
  WRAPPED(Iname, (LIST parameters, MPI_Request * request), (LIST arguments, request)) {                    \
    const int result = PMPI(Iname)(LIST arguments, request);                                               \
    if (call.succeeded(result) && is_recordable(comm)) add_pending_collective(events::described, request); \
    return result;                                                                                         \
  }

#define REDUCES(Name, Iname, operation, Count)                                                                   \
  COLLECTIVE(Name, Iname, (const void* in, void* out, Count count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), \
             (in, out, count, type, op, comm), operation(in, out, count, type, op, comm))

#define MOVES(Name, Iname, Count, described)                                                                      \
  COLLECTIVE(                                                                                                     \
      Name, Iname,                                                                                                \
      (const void* in, Count n_in, MPI_Datatype t_in, void* out, Count n_out, MPI_Datatype t_out, MPI_Comm comm), \
      (in, n_in, t_in, out, n_out, t_out, comm), described)

#define MOVES_ROOTED(Name, Iname, Count, operation)                                                                \
  COLLECTIVE(Name, Iname,                                                                                          \
             (const void* in, Count n_in, MPI_Datatype t_in, void* out, Count n_out, MPI_Datatype t_out, int root, \
              MPI_Comm comm),                                                                                      \
             (in, n_in, t_in, out, n_out, t_out, root, comm),                                                      \
             operation(in, n_in, t_in, out, n_out, t_out, root, comm))

#define GETS_LISTED(Name, Iname, Count, Offset, kind, sources)                                                        \
  COLLECTIVE(Name, Iname,                                                                                             \
             (const void* in, Count n_in, MPI_Datatype t_in, void* out, const Count counts[], const Offset offsets[], \
              MPI_Datatype t_out, MPI_Comm comm),                                                                     \
             (in, n_in, t_in, out, counts, offsets, t_out, comm),                                                     \
             collective_with_listed_receives(kind, sources, in, n_in, t_in, out, counts, offsets, t_out, comm))

// `Type` and `brackets` declare one MPI_Datatype for all ranks, or an array with one per rank.
#define ALL_LISTED(Name, Iname, Count, Offset, Type, brackets, kind, destinations, sources)                    \
  COLLECTIVE(Name, Iname,                                                                                      \
             (const void* in, const Count n_in[], const Offset offsets_in[], Type t_in brackets, void* out,    \
              const Count n_out[], const Offset offsets_out[], Type t_out brackets, MPI_Comm comm),            \
             (in, n_in, offsets_in, t_in, out, n_out, offsets_out, t_out, comm),                               \
             collective_with_listed_parts(kind, destinations, sources, in, n_in, offsets_in, t_in, out, n_out, \
                                          offsets_out, t_out, comm))

#define ALL(suffix, Count, Offset)                                                                                     \
  COLLECTIVE(MPI_Bcast##suffix, MPI_Ibcast##suffix,                                                                    \
             (void* buffer, Count count, MPI_Datatype type, int root, MPI_Comm comm),                                  \
             (buffer, count, type, root, comm), bcast(buffer, count, type, root, comm))                                \
  COLLECTIVE(MPI_Reduce##suffix, MPI_Ireduce##suffix,                                                                  \
             (const void* in, void* out, Count count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm),          \
             (in, out, count, type, op, root, comm), reduce(in, out, count, type, op, root, comm))                     \
  COLLECTIVE(MPI_Reduce_scatter##suffix, MPI_Ireduce_scatter##suffix,                                                  \
             (const void* in, void* out, const Count counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm),           \
             (in, out, counts, type, op, comm), reduce_scatter(in, out, counts, type, op, comm))                       \
  REDUCES(MPI_Allreduce##suffix, MPI_Iallreduce##suffix, allreduce, Count)                                             \
  REDUCES(MPI_Scan##suffix, MPI_Iscan##suffix, scan, Count)                                                            \
  REDUCES(MPI_Exscan##suffix, MPI_Iexscan##suffix, exscan, Count)                                                      \
  REDUCES(MPI_Reduce_scatter_block##suffix, MPI_Ireduce_scatter_block##suffix, reduce_scatter_block, Count)            \
  MOVES_ROOTED(MPI_Gather##suffix, MPI_Igather##suffix, Count, gather)                                                 \
  MOVES_ROOTED(MPI_Scatter##suffix, MPI_Iscatter##suffix, Count, scatter)                                              \
  COLLECTIVE(MPI_Gatherv##suffix, MPI_Igatherv##suffix,                                                                \
             (const void* in, Count n_in, MPI_Datatype t_in, void* out, const Count counts[], const Offset offsets[],  \
              MPI_Datatype t_out, int root, MPI_Comm comm),                                                            \
             (in, n_in, t_in, out, counts, offsets, t_out, root, comm),                                                \
             gatherv(in, n_in, t_in, out, counts, offsets, t_out, root, comm))                                         \
  COLLECTIVE(MPI_Scatterv##suffix, MPI_Iscatterv##suffix,                                                              \
             (const void* in, const Count counts[], const Offset offsets[], MPI_Datatype t_in, void* out, Count n_out, \
              MPI_Datatype t_out, int root, MPI_Comm comm),                                                            \
             (in, counts, offsets, t_in, out, n_out, t_out, root, comm),                                               \
             scatterv(in, counts, offsets, t_in, out, n_out, t_out, root, comm))                                       \
  MOVES(MPI_Allgather##suffix, MPI_Iallgather##suffix, Count,                                                          \
        collective_of_single_parts(Kind::allgather, in, n_in, t_in, out, n_out, t_out, comm))                          \
  MOVES(MPI_Alltoall##suffix, MPI_Ialltoall##suffix, Count,                                                            \
        collective_of_single_parts(Kind::alltoall, in, n_in, t_in, out, n_out, t_out, comm))                           \
  MOVES(MPI_Neighbor_allgather##suffix, MPI_Ineighbor_allgather##suffix, Count,                                        \
        collective_of_single_parts(Kind::neighbor_allgather, in, n_in, t_in, out, n_out, t_out, comm))                 \
  MOVES(MPI_Neighbor_alltoall##suffix, MPI_Ineighbor_alltoall##suffix, Count,                                          \
        collective_of_single_parts(Kind::neighbor_alltoall, in, n_in, t_in, out, n_out, t_out, comm))                  \
  GETS_LISTED(MPI_Allgatherv##suffix, MPI_Iallgatherv##suffix, Count, Offset, Kind::allgatherv, events::size_of(comm)) \
  GETS_LISTED(MPI_Neighbor_allgatherv##suffix, MPI_Ineighbor_allgatherv##suffix, Count, Offset,                        \
              Kind::neighbor_allgatherv, events::sources_of(comm))                                                     \
  ALL_LISTED(MPI_Alltoallv##suffix, MPI_Ialltoallv##suffix, Count, Offset, MPI_Datatype, , Kind::alltoallv,            \
             events::size_of(comm), events::size_of(comm))                                                             \
  ALL_LISTED(MPI_Alltoallw##suffix, MPI_Ialltoallw##suffix, Count, Offset, const MPI_Datatype, [], Kind::alltoallw,    \
             events::size_of(comm), events::size_of(comm))                                                             \
  ALL_LISTED(MPI_Neighbor_alltoallv##suffix, MPI_Ineighbor_alltoallv##suffix, Count, Offset, MPI_Datatype, ,           \
             Kind::neighbor_alltoallv, events::destinations_of(comm), events::sources_of(comm))                        \
  ALL_LISTED(MPI_Neighbor_alltoallw##suffix, MPI_Ineighbor_alltoallw##suffix, Count, MPI_Aint, const MPI_Datatype, [], \
             Kind::neighbor_alltoallw, events::destinations_of(comm), events::sources_of(comm))

COLLECTIVE(MPI_Barrier, MPI_Ibarrier, (MPI_Comm comm), (comm), barrier(comm))
ALL(, int, int)
#if MPI_VERSION >= 4
ALL(_c, MPI_Count, MPI_Aint)
#endif
#undef ALL

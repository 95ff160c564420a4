// Wrappers of the functions that create, name and free communicators.
#include "preload/observe/mpi/collective_events.hpp"
#include "preload/observe/mpi/communicators.hpp"
#include "preload/observe/mpi/live_session.hpp"
#include "preload/observe/mpi/requests.hpp"
#include "preload/observe/mpi/wrapper.hpp"

using namespace nearfield::observe;

// Wrappers of functions that create a communicator and return it in the last parameter, `fresh`.
#define MAKES(name, parameters, arguments)                                      \
  WRAPPED(name, (LIST parameters, MPI_Comm * fresh), (LIST arguments, fresh)) { \
    if (is_live()) live_session().synchronise_ranks(comm);                      \
    const int result = PMPI(name)(LIST arguments, fresh);                       \
    if (call.succeeded(result)) record_new_communicator(*fresh);                \
    return result;                                                              \
  }

MAKES(MPI_Comm_dup, (MPI_Comm comm), (comm))
MAKES(MPI_Comm_dup_with_info, (MPI_Comm comm, MPI_Info info), (comm, info))
MAKES(MPI_Comm_create, (MPI_Comm comm, MPI_Group group), (comm, group))
MAKES(MPI_Comm_split, (MPI_Comm comm, int color, int key), (comm, color, key))
MAKES(MPI_Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info), (comm, type, key, info))
MAKES(MPI_Cart_create, (MPI_Comm comm, int n, const int dims[], const int periods[], int reorder),
      (comm, n, dims, periods, reorder))
MAKES(MPI_Cart_sub, (MPI_Comm comm, const int remain[]), (comm, remain))
MAKES(MPI_Graph_create, (MPI_Comm comm, int n, const int index[], const int edges[], int reorder),
      (comm, n, index, edges, reorder))
MAKES(MPI_Dist_graph_create,
      (MPI_Comm comm, int n, const int sources[], const int degrees[], const int destinations[], const int weights[],
       MPI_Info info, int reorder),
      (comm, n, sources, degrees, destinations, weights, info, reorder))
MAKES(MPI_Dist_graph_create_adjacent,
      (MPI_Comm comm, int n_in, const int sources[], const int weights_in[], int n_out, const int destinations[],
       const int weights_out[], MPI_Info info, int reorder),
      (comm, n_in, sources, weights_in, n_out, destinations, weights_out, info, reorder))

// Functions that a live simulation does not support, because they synchronise only some members of a communicator, or
// the members of two communicators.
#define UNSUPPORTED_LIVE(name, parameters, arguments)                           \
  WRAPPED(name, (LIST parameters, MPI_Comm * fresh), (LIST arguments, fresh)) { \
    if (is_live()) mark_unsupported(#name " in a live simulation");             \
    const int result = PMPI(name)(LIST arguments, fresh);                       \
    if (call.succeeded(result)) record_new_communicator(*fresh);                \
    return result;                                                              \
  }

UNSUPPORTED_LIVE(MPI_Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag), (comm, group, tag))
UNSUPPORTED_LIVE(MPI_Intercomm_create, (MPI_Comm comm, int leader, MPI_Comm peer, int remote_leader, int tag),
                 (comm, leader, peer, remote_leader, tag))
UNSUPPORTED_LIVE(MPI_Intercomm_merge, (MPI_Comm comm, int high), (comm, high))

// The copy exists when the request completes; the request itself has no event.
#define MAKES_NONBLOCKING(name, parameters, arguments)                                                          \
  WRAPPED(name, (LIST parameters, MPI_Comm * fresh, MPI_Request * request), (LIST arguments, fresh, request)) { \
    const int result = PMPI(name)(LIST arguments, fresh, request);                                              \
    if (call.succeeded(result)) {                                                                               \
      const auto context = compute_context_of_copy(comm);                                                       \
      Request pending;                                                                                          \
      if (is_live()) pending.number = record_start_of(events::barrier(comm));                                   \
      pending.at_end = [=] { record_communicator_copy(*fresh, context); };                                      \
      requests().add(request, std::move(pending));                                                              \
    }                                                                                                           \
    return result;                                                                                              \
  }

MAKES_NONBLOCKING(MPI_Comm_idup, (MPI_Comm comm), (comm))
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
MAKES_NONBLOCKING(MPI_Comm_idup_with_info, (MPI_Comm comm, MPI_Info info), (comm, info))
#endif

#define FREES(name)                                       \
  WRAPPED(name, (MPI_Comm * comm), (comm)) {              \
    const MPI_Comm old = *comm;                           \
    const int result = PMPI(name)(comm);                  \
    if (call.succeeded(result)) forget_communicator(old); \
    return result;                                        \
  }

FREES(MPI_Comm_free)
FREES(MPI_Comm_disconnect)

WRAPPED(MPI_Comm_set_name, (MPI_Comm comm, const char* name), (comm, name)) {
  const int result = PMPI(MPI_Comm_set_name)(comm, name);
  if (call.succeeded(result)) record_communicator_name(comm);
  return result;
}

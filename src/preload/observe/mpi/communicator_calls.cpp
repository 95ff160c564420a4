// Wrappers of the functions that create, name and free communicators.
#include "preload/observe/mpi/collective_events.hpp"
#include "preload/observe/mpi/communicators.hpp"
#include "preload/observe/mpi/live_session.hpp"
#include "preload/observe/mpi/requests.hpp"
#include "preload/observe/mpi/wrapper.hpp"

using namespace nearfield::observe;

// Wrappers of functions that create a communicator and return it in the last parameter, `new_comm`.
#define WRAP_COMM_CREATION(name, parameters, arguments)                                                            \
  DEFINE_WRAPPER(name, (UNPARENTHESIZED parameters, MPI_Comm * new_comm), (UNPARENTHESIZED arguments, new_comm)) { \
    if (is_live()) live_session().synchronize_ranks(comm);                                                         \
    const int result = PMPI(name)(UNPARENTHESIZED arguments, new_comm);                                            \
    if (call.succeeded(result)) record_new_communicator(*new_comm);                                                \
    return result;                                                                                                 \
  }

WRAP_COMM_CREATION(MPI_Comm_dup, (MPI_Comm comm), (comm))
WRAP_COMM_CREATION(MPI_Comm_dup_with_info, (MPI_Comm comm, MPI_Info info), (comm, info))
WRAP_COMM_CREATION(MPI_Comm_create, (MPI_Comm comm, MPI_Group group), (comm, group))
WRAP_COMM_CREATION(MPI_Comm_split, (MPI_Comm comm, int color, int key), (comm, color, key))
WRAP_COMM_CREATION(MPI_Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info), (comm, type, key, info))
WRAP_COMM_CREATION(MPI_Cart_create, (MPI_Comm comm, int n, const int dims[], const int periods[], int reorder),
                   (comm, n, dims, periods, reorder))
WRAP_COMM_CREATION(MPI_Cart_sub, (MPI_Comm comm, const int remain[]), (comm, remain))
WRAP_COMM_CREATION(MPI_Graph_create, (MPI_Comm comm, int n, const int index[], const int edges[], int reorder),
                   (comm, n, index, edges, reorder))
WRAP_COMM_CREATION(MPI_Dist_graph_create,
                   (MPI_Comm comm, int n, const int sources[], const int degrees[], const int destinations[],
                    const int weights[], MPI_Info info, int reorder),
                   (comm, n, sources, degrees, destinations, weights, info, reorder))
WRAP_COMM_CREATION(MPI_Dist_graph_create_adjacent,
                   (MPI_Comm comm, int in_count, const int sources[], const int weights_in[], int out_count,
                    const int destinations[], const int weights_out[], MPI_Info info, int reorder),
                   (comm, in_count, sources, weights_in, out_count, destinations, weights_out, info, reorder))

// Functions that a live simulation does not support, because they synchronise only some members of a communicator, or
// the members of two communicators.
#define WRAP_UNSUPPORTED_IF_LIVE(name, parameters, arguments)                                                      \
  DEFINE_WRAPPER(name, (UNPARENTHESIZED parameters, MPI_Comm * new_comm), (UNPARENTHESIZED arguments, new_comm)) { \
    if (is_live()) mark_unsupported(#name " in a live simulation");                                                \
    const int result = PMPI(name)(UNPARENTHESIZED arguments, new_comm);                                            \
    if (call.succeeded(result)) record_new_communicator(*new_comm);                                                \
    return result;                                                                                                 \
  }

WRAP_UNSUPPORTED_IF_LIVE(MPI_Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag), (comm, group, tag))
WRAP_UNSUPPORTED_IF_LIVE(MPI_Intercomm_create, (MPI_Comm comm, int leader, MPI_Comm peer, int remote_leader, int tag),
                         (comm, leader, peer, remote_leader, tag))
WRAP_UNSUPPORTED_IF_LIVE(MPI_Intercomm_merge, (MPI_Comm comm, int high), (comm, high))

// The copy exists when the request completes; the request itself has no event.
#define WRAP_NONBLOCKING_COMM_CREATION(name, parameters, arguments)                              \
  DEFINE_WRAPPER(name, (UNPARENTHESIZED parameters, MPI_Comm * new_comm, MPI_Request * request), \
                 (UNPARENTHESIZED arguments, new_comm, request)) {                               \
    const int result = PMPI(name)(UNPARENTHESIZED arguments, new_comm, request);                 \
    if (call.succeeded(result)) {                                                                \
      const auto context = compute_context_of_copy(comm);                                        \
      Request pending;                                                                           \
      if (is_live()) pending.number = record_start_of(events::make_barrier_event(comm));         \
      pending.on_completion = [=] { record_communicator_copy(*new_comm, context); };             \
      requests().add_request(request, std::move(pending));                                       \
    }                                                                                            \
    return result;                                                                               \
  }

WRAP_NONBLOCKING_COMM_CREATION(MPI_Comm_idup, (MPI_Comm comm), (comm))
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
WRAP_NONBLOCKING_COMM_CREATION(MPI_Comm_idup_with_info, (MPI_Comm comm, MPI_Info info), (comm, info))
#endif

#define WRAP_COMM_FREE(name)                                     \
  DEFINE_WRAPPER(name, (MPI_Comm * comm), (comm)) {              \
    const MPI_Comm freed_comm = *comm;                           \
    const int result = PMPI(name)(comm);                         \
    if (call.succeeded(result)) remove_communicator(freed_comm); \
    return result;                                               \
  }

WRAP_COMM_FREE(MPI_Comm_free)
WRAP_COMM_FREE(MPI_Comm_disconnect)

DEFINE_WRAPPER(MPI_Comm_set_name, (MPI_Comm comm, const char* name), (comm, name)) {
  const int result = PMPI(MPI_Comm_set_name)(comm, name);
  if (call.succeeded(result)) record_communicator_name(comm);
  return result;
}

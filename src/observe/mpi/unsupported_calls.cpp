// MPI functions that no event describes: the first call of each marks the stream as unsupported. Arguments are passed
// on without knowing their types: they are integers and pointers, each in a register or stack slot of its own.
#include <cstdint>

#include "base/mpi_library.hpp"
#include "observe/mpi/call.hpp"

namespace {
using Word = std::intptr_t;
}

#define UNSUPPORTED(name)                                                                                              \
  extern "C" __attribute__((visibility("default"))) int name(Word a, Word b, Word c, Word d, Word e, Word f, Word g,   \
                                                             Word h, Word i, Word j, Word k, Word l, Word m, Word n) { \
    static nearfield::observe::Name mpi_name{#name};                                                                   \
    static const auto own = reinterpret_cast<decltype(&name)>(nearfield::next_or_abort("P" #name, "P" #name));         \
    const nearfield::observe::Call call(mpi_name, __builtin_return_address(0));                                        \
    if (call.is_recorded()) nearfield::observe::mark_unsupported(#name);                                               \
    return own(a, b, c, d, e, f, g, h, i, j, k, l, m, n);                                                              \
  }                                                                                                                    \
  extern "C" __attribute__((visibility("default"), alias(#name))) decltype(name) P##name;

#define UNSUPPORTED_WITH_LARGE(name) UNSUPPORTED(name) UNSUPPORTED(name##_c)

UNSUPPORTED(MPI_Cancel)
UNSUPPORTED(MPI_Session_init)
UNSUPPORTED(MPI_Comm_create_from_group)
UNSUPPORTED(MPI_Intercomm_create_from_groups)
UNSUPPORTED(MPI_Comm_spawn)
UNSUPPORTED(MPI_Comm_spawn_multiple)
UNSUPPORTED(MPI_Comm_accept)
UNSUPPORTED(MPI_Comm_connect)
UNSUPPORTED(MPI_Comm_join)
UNSUPPORTED(MPI_File_open)
UNSUPPORTED_WITH_LARGE(MPI_Win_create)
UNSUPPORTED_WITH_LARGE(MPI_Win_allocate)
UNSUPPORTED_WITH_LARGE(MPI_Win_allocate_shared)
UNSUPPORTED(MPI_Win_create_dynamic)
UNSUPPORTED_WITH_LARGE(MPI_Isendrecv)
UNSUPPORTED_WITH_LARGE(MPI_Isendrecv_replace)
UNSUPPORTED(MPI_Psend_init)
UNSUPPORTED(MPI_Precv_init)
UNSUPPORTED(MPI_Request_get_status_all)
UNSUPPORTED(MPI_Request_get_status_any)
UNSUPPORTED(MPI_Request_get_status_some)

// Persistent collective operations.
UNSUPPORTED(MPI_Barrier_init)
UNSUPPORTED_WITH_LARGE(MPI_Bcast_init)
UNSUPPORTED_WITH_LARGE(MPI_Reduce_init)
UNSUPPORTED_WITH_LARGE(MPI_Allreduce_init)
UNSUPPORTED_WITH_LARGE(MPI_Gather_init)
UNSUPPORTED_WITH_LARGE(MPI_Gatherv_init)
UNSUPPORTED_WITH_LARGE(MPI_Scatter_init)
UNSUPPORTED_WITH_LARGE(MPI_Scatterv_init)
UNSUPPORTED_WITH_LARGE(MPI_Allgather_init)
UNSUPPORTED_WITH_LARGE(MPI_Allgatherv_init)
UNSUPPORTED_WITH_LARGE(MPI_Alltoall_init)
UNSUPPORTED_WITH_LARGE(MPI_Alltoallv_init)
UNSUPPORTED_WITH_LARGE(MPI_Alltoallw_init)
UNSUPPORTED_WITH_LARGE(MPI_Reduce_scatter_init)
UNSUPPORTED_WITH_LARGE(MPI_Reduce_scatter_block_init)
UNSUPPORTED_WITH_LARGE(MPI_Scan_init)
UNSUPPORTED_WITH_LARGE(MPI_Exscan_init)
UNSUPPORTED_WITH_LARGE(MPI_Neighbor_allgather_init)
UNSUPPORTED_WITH_LARGE(MPI_Neighbor_allgatherv_init)
UNSUPPORTED_WITH_LARGE(MPI_Neighbor_alltoall_init)
UNSUPPORTED_WITH_LARGE(MPI_Neighbor_alltoallv_init)
UNSUPPORTED_WITH_LARGE(MPI_Neighbor_alltoallw_init)

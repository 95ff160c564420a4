// MPI functions that no event describes: the first call of each makes the stream `refused`. Arguments are passed on
// without knowing their types: they are integers and pointers, each in a register or in a place of the stack of its own.
#include <cstdint>

#include "base/mpi_library.hpp"
#include "observe/mpi/call.hpp"

namespace {
using Word = std::intptr_t;
}

#define REFUSES(name)                                                                                                  \
  extern "C" __attribute__((visibility("default"))) int name(Word a, Word b, Word c, Word d, Word e, Word f, Word g,   \
                                                             Word h, Word i, Word j, Word k, Word l, Word m, Word n) { \
    static nearfield::observe::Name its_name{#name};                                                                   \
    static const auto own = reinterpret_cast<decltype(&name)>(nearfield::next_or_abort("P" #name, "P" #name));         \
    const nearfield::observe::Call call(its_name, __builtin_return_address(0));                                        \
    if (call.is_recorded()) nearfield::observe::refuse(#name);                                                         \
    return own(a, b, c, d, e, f, g, h, i, j, k, l, m, n);                                                              \
  }                                                                                                                    \
  extern "C" __attribute__((visibility("default"), alias(#name))) decltype(name) P##name;

#define REFUSES_WITH_LARGE(name) REFUSES(name) REFUSES(name##_c)

REFUSES(MPI_Cancel)
REFUSES(MPI_Session_init)
REFUSES(MPI_Comm_create_from_group)
REFUSES(MPI_Intercomm_create_from_groups)
REFUSES(MPI_Comm_spawn)
REFUSES(MPI_Comm_spawn_multiple)
REFUSES(MPI_Comm_accept)
REFUSES(MPI_Comm_connect)
REFUSES(MPI_Comm_join)
REFUSES(MPI_File_open)
REFUSES_WITH_LARGE(MPI_Win_create)
REFUSES_WITH_LARGE(MPI_Win_allocate)
REFUSES_WITH_LARGE(MPI_Win_allocate_shared)
REFUSES(MPI_Win_create_dynamic)
REFUSES_WITH_LARGE(MPI_Isendrecv)
REFUSES_WITH_LARGE(MPI_Isendrecv_replace)
REFUSES(MPI_Psend_init)
REFUSES(MPI_Precv_init)
REFUSES(MPI_Request_get_status_all)
REFUSES(MPI_Request_get_status_any)
REFUSES(MPI_Request_get_status_some)

// Persistent collective operations.
REFUSES(MPI_Barrier_init)
REFUSES_WITH_LARGE(MPI_Bcast_init)
REFUSES_WITH_LARGE(MPI_Reduce_init)
REFUSES_WITH_LARGE(MPI_Allreduce_init)
REFUSES_WITH_LARGE(MPI_Gather_init)
REFUSES_WITH_LARGE(MPI_Gatherv_init)
REFUSES_WITH_LARGE(MPI_Scatter_init)
REFUSES_WITH_LARGE(MPI_Scatterv_init)
REFUSES_WITH_LARGE(MPI_Allgather_init)
REFUSES_WITH_LARGE(MPI_Allgatherv_init)
REFUSES_WITH_LARGE(MPI_Alltoall_init)
REFUSES_WITH_LARGE(MPI_Alltoallv_init)
REFUSES_WITH_LARGE(MPI_Alltoallw_init)
REFUSES_WITH_LARGE(MPI_Reduce_scatter_init)
REFUSES_WITH_LARGE(MPI_Reduce_scatter_block_init)
REFUSES_WITH_LARGE(MPI_Scan_init)
REFUSES_WITH_LARGE(MPI_Exscan_init)
REFUSES_WITH_LARGE(MPI_Neighbor_allgather_init)
REFUSES_WITH_LARGE(MPI_Neighbor_allgatherv_init)
REFUSES_WITH_LARGE(MPI_Neighbor_alltoall_init)
REFUSES_WITH_LARGE(MPI_Neighbor_alltoallv_init)
REFUSES_WITH_LARGE(MPI_Neighbor_alltoallw_init)

// Wrappers of MPI functions that no event describes: the first call of each marks the stream as unsupported. The
// arguments, which are integers and pointers, are passed on without knowing their types, each in a register or stack
// slot of its own.
#include <cstdint>

#include "preload/mpi/wrap.hpp"
#include "preload/observe/mpi/call.hpp"

namespace {
using Word = std::intptr_t;
}

#define UNSUPPORTED(name)                                                                                           \
  NEARFIELD_EXPORT int name(Word a, Word b, Word c, Word d, Word e, Word f, Word g, Word h, Word i, Word j, Word k, \
                            Word l, Word m, Word n) {                                                               \
    static nearfield::observe::FunctionName mpi_name{#name};                                                        \
    static const auto own = reinterpret_cast<decltype(&name)>(nearfield::next_or_abort("P" #name, "P" #name));      \
    const nearfield::observe::Call call(mpi_name, __builtin_return_address(0));                                     \
    if (call.is_recorded()) nearfield::observe::mark_unsupported(#name);                                            \
    return own(a, b, c, d, e, f, g, h, i, j, k, l, m, n);                                                           \
  }                                                                                                                 \
  NEARFIELD_EXPORT_PMPI(name)

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

// Persistent forms of all collectives in the table calls.def.
#define CALL(name, fortran, n, shape)
#define BOTH(name, fortran, n, shape)
#define COLLECTIVE(name, fortran, iname, n, shape) UNSUPPORTED_WITH_LARGE(MPI_##name##_init)
#include "preload/mpi/calls.def"

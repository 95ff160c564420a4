// Wrappers of MPI functions that no event describes: the first call of each marks the stream as unsupported. The
// arguments, which are integers and pointers, are passed on without knowing their types; each occupies one register or
// stack slot.
#include <cstdint>

#include "preload/mpi/wrap.hpp"
#include "preload/observe/mpi/call.hpp"

namespace {
using Word = std::intptr_t;
}

#define WRAP_UNSUPPORTED(name)                                                                                      \
  NEARFIELD_EXPORT int name(Word a, Word b, Word c, Word d, Word e, Word f, Word g, Word h, Word i, Word j, Word k, \
                            Word l, Word m, Word n) {                                                               \
    static nearfield::observe::FunctionName mpi_name{#name};                                                        \
    static const auto next_definition =                                                                             \
        reinterpret_cast<decltype(&name)>(nearfield::find_next_or_abort("P" #name, "P" #name));                     \
    const nearfield::observe::Call call(mpi_name, __builtin_return_address(0));                                     \
    if (call.is_recorded()) nearfield::observe::mark_unsupported(#name);                                            \
    return next_definition(a, b, c, d, e, f, g, h, i, j, k, l, m, n);                                               \
  }                                                                                                                 \
  NEARFIELD_EXPORT_PMPI(name)

#define WRAP_UNSUPPORTED_WITH_LARGE(name) WRAP_UNSUPPORTED(name) WRAP_UNSUPPORTED(name##_c)

WRAP_UNSUPPORTED(MPI_Cancel)
WRAP_UNSUPPORTED(MPI_Session_init)
WRAP_UNSUPPORTED(MPI_Comm_create_from_group)
WRAP_UNSUPPORTED(MPI_Intercomm_create_from_groups)
WRAP_UNSUPPORTED(MPI_Comm_spawn)
WRAP_UNSUPPORTED(MPI_Comm_spawn_multiple)
WRAP_UNSUPPORTED(MPI_Comm_accept)
WRAP_UNSUPPORTED(MPI_Comm_connect)
WRAP_UNSUPPORTED(MPI_Comm_join)
WRAP_UNSUPPORTED(MPI_File_open)
WRAP_UNSUPPORTED_WITH_LARGE(MPI_Win_create)
WRAP_UNSUPPORTED_WITH_LARGE(MPI_Win_allocate)
WRAP_UNSUPPORTED_WITH_LARGE(MPI_Win_allocate_shared)
WRAP_UNSUPPORTED(MPI_Win_create_dynamic)
WRAP_UNSUPPORTED_WITH_LARGE(MPI_Isendrecv)
WRAP_UNSUPPORTED_WITH_LARGE(MPI_Isendrecv_replace)
WRAP_UNSUPPORTED(MPI_Psend_init)
WRAP_UNSUPPORTED(MPI_Precv_init)
WRAP_UNSUPPORTED(MPI_Request_get_status_all)
WRAP_UNSUPPORTED(MPI_Request_get_status_any)
WRAP_UNSUPPORTED(MPI_Request_get_status_some)

// Persistent forms of all collectives in the table calls.def.
#define CALL(name, fortran, n, shape)
#define CALL_WITH_LARGE(name, fortran, n, shape)
#define COLLECTIVE_CALL(name, fortran, iname, n, shape) WRAP_UNSUPPORTED_WITH_LARGE(MPI_##name##_init)
#include "preload/mpi/calls.def"

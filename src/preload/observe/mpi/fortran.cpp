// Entry points with the Fortran names of the wrapped MPI functions, which record the program's call site: the functions
// of the table calls.def, and the others that this layer wraps.
#include "preload/mpi/fortran_names.hpp"
#include "preload/observe/mpi/call.hpp"

#define NOTES(fortran) NEARFIELD_NOTES_FORTRAN(fortran, nearfield::observe::detail::fortran_site)
#define CALL(name, fortran, n, shape) NOTES(fortran)
#define BOTH CALL
#define COLLECTIVE(name, fortran, iname, n, shape) NOTES(fortran) NOTES(i##fortran) NOTES(fortran##_init)
#include "preload/mpi/calls.def"

NOTES(init)
NOTES(init_thread)
NOTES(finalize)
NOTES(abort)
NOTES(pcontrol)
NOTES(cancel)
NOTES(request_free)
NOTES(comm_idup)
NOTES(comm_idup_with_info)
NOTES(comm_set_name)

// Entry points with the Fortran names of the wrapped MPI functions, which record the program's call site: the functions
// of the table calls.def, and the others that this layer wraps.
#include "preload/mpi/fortran_names.hpp"
#include "preload/observe/mpi/call.hpp"

#define WRAP_FORTRAN(fortran) NEARFIELD_WRAP_FORTRAN(fortran, nearfield::observe::detail::fortran_site)
#define CALL(name, fortran, n, shape) WRAP_FORTRAN(fortran)
#define CALL_WITH_LARGE CALL
#define COLLECTIVE_CALL(name, fortran, iname, n, shape) \
  WRAP_FORTRAN(fortran) WRAP_FORTRAN(i##fortran) WRAP_FORTRAN(fortran##_init)
#include "preload/mpi/calls.def"

WRAP_FORTRAN(init)
WRAP_FORTRAN(init_thread)
WRAP_FORTRAN(finalize)
WRAP_FORTRAN(abort)
WRAP_FORTRAN(pcontrol)
WRAP_FORTRAN(cancel)
WRAP_FORTRAN(request_free)
WRAP_FORTRAN(comm_idup)
WRAP_FORTRAN(comm_idup_with_info)
WRAP_FORTRAN(comm_set_name)

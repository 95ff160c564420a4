// Entry points with the Fortran names of the functions in the table calls.def, which record the program's call site.
#include "preload/forecast/record.hpp"
#include "preload/mpi/fortran_names.hpp"

#define WRAP_FORTRAN(fortran) NEARFIELD_WRAP_FORTRAN(fortran, nearfield::forecast::thread_state.fortran_site)
#define CALL(name, fortran, n, positions) WRAP_FORTRAN(fortran)
#define CALL_WITH_LARGE CALL
#define COLLECTIVE_CALL(name, fortran, iname, n, positions) \
  WRAP_FORTRAN(fortran) WRAP_FORTRAN(i##fortran) WRAP_FORTRAN(fortran##_init)
#include "preload/mpi/calls.def"

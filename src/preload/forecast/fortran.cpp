// Entry points with the Fortran names of the functions in the table calls.def, which record the program's call site.
#include "preload/forecast/record.hpp"
#include "preload/mpi/fortran_names.hpp"

#define NOTES(fortran) NEARFIELD_NOTES_FORTRAN(fortran, nearfield::forecast::thread_state.fortran_site)
#define CALL(name, fortran, n, shape) NOTES(fortran)
#define BOTH CALL
#define COLLECTIVE(name, fortran, iname, n, shape) NOTES(fortran) NOTES(i##fortran) NOTES(fortran##_init)
#include "preload/mpi/calls.def"

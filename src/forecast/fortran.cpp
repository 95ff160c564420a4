// Fortran names of all functions in calls.def.
#include "base/fortran_names.hpp"
#include "forecast/record.hpp"

#define CALL(name, fortran, n, shape) NEARFIELD_NOTES_WITH_BUFFER(fortran, nearfield::forecast::thread.fortran_site)
#define BOTH CALL
#define COLLECTIVE(name, fortran, iname, n, shape) CALL(, fortran, , ) CALL(, i##fortran, , ) CALL(, fortran##_init, , )
#include "forecast/calls.def"

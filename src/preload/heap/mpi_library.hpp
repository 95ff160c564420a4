// Looks up functions of the MPI library of this process, to which this library is not linked.
#pragma once

namespace nearfield::heap {

// Returns the address of the symbol `name` in the loaded library whose file name begins with `library` ("libmpi.");
// nullptr if there is no such library or symbol. Finds also libraries that were loaded with local scope, as for Python
// modules.
void* find_in_library(const char* library, const char* name);

// Returns the next definition of an MPI function after this library's: that of a tool preloaded after this library, or
// the MPI's. nullptr if there is none.
void* next_mpi_function(const char* name);

// Returns the number of ranks of MPI_COMM_WORLD after MPI_Init; 0 if unknown for this MPI.
int world_size();

}  // namespace nearfield::heap

// Looks up functions of the MPI library of this process, to which this library is not linked.
#pragma once

namespace nearfield::heap {

// Returns the address of the symbol `name` in the loaded library whose file name begins with `library` ("libmpi.");
// nullptr if there is no such library or symbol. Also finds libraries that were loaded with local scope, as Python does
// for its modules.
void* find_library_symbol(const char* library, const char* name);

// Returns the next definition of an MPI function after that of this library: the definition of a tool preloaded after
// this library, or that of the MPI library. Returns nullptr if there is none.
void* next_mpi_function(const char* name);

// Returns the number of ranks of MPI_COMM_WORLD after MPI_Init; 0 if unknown for this MPI.
int world_size();

}  // namespace nearfield::heap

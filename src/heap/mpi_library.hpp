// The MPI of this process, which this library is not linked to.
#pragma once

namespace nearfield::heap {

// Returns what a loaded library calls by this name; nullptr if there is no such library or name. `library` is how the
// library's file name begins: "libmpi.". A library that was loaded for another one alone, as those of Python's modules
// are, is found, too.
void* find_in_library(const char* library, const char* name);

// Returns the function of MPI behind this library's own one of the same name: a tool's that was preloaded after this
// library, or the MPI's. nullptr if there is none.
void* next_mpi_function(const char* name);

// Returns the number of ranks of MPI_COMM_WORLD after MPI_Init; 0 if it is not known for this MPI.
int world_size();

}  // namespace nearfield::heap

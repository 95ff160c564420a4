// The MPI of this process, to which this library is not linked.
#pragma once

namespace nearfield::heap {

// Returns the symbol of this name in a loaded library; nullptr if there is no such library or symbol. `library` is how
// its file name begins: "libmpi.". Libraries loaded locally for another one, as for Python modules, are found, too.
void* find_in_library(const char* library, const char* name);

// Returns the next function of MPI after this library's own of the same name: that of a tool preloaded after this
// library, or the MPI's. nullptr if there is none.
void* next_mpi_function(const char* name);

// Returns the number of ranks of MPI_COMM_WORLD after MPI_Init; 0 if unknown for this MPI.
int world_size();

}  // namespace nearfield::heap

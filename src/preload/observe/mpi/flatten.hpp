// Converts datatypes into runs of contiguous blocks, by MPI_Type_get_envelope and MPI_Type_get_contents.
#pragma once

#include <mpi.h>

#include "preload/observe/mpi/runs.hpp"

namespace nearfield::observe {

// Returns the bytes of one element as regular runs of blocks (runs.hpp).
BlockRuns flatten_datatype(MPI_Datatype type);

// Returns the name of the function that created the datatype, such as "vector" for MPI_Type_vector; "" for predefined
// datatypes.
const char* constructor_name_of(MPI_Datatype type);

}  // namespace nearfield::observe

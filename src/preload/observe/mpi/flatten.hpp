// Flattens datatypes by means of MPI_Type_get_envelope and MPI_Type_get_contents.
#pragma once

#include <mpi.h>

#include "preload/observe/mpi/runs.hpp"

namespace nearfield::observe {

// Returns the bytes of one element as runs of blocks.
Runs flatten(MPI_Datatype type);

// Returns the name of the constructor, e.g. "vector" for MPI_Type_vector; "" for predefined datatypes.
const char* constructor_of(MPI_Datatype type);

}  // namespace nearfield::observe

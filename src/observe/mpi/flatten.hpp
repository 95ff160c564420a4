// Takes a datatype apart, through MPI_Type_get_envelope and MPI_Type_get_contents.
#pragma once

#include <mpi.h>

#include "observe/mpi/runs.hpp"

namespace nearfield::observe {

// Returns the bytes of one element.
Runs flattened(MPI_Datatype type);

// Returns "vector" for what MPI_Type_vector made, and so on; "" for MPI's own datatypes.
const char* constructor_of(MPI_Datatype type);

}  // namespace nearfield::observe

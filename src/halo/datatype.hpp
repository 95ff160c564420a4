// Describes cells and bytes to MPI, as count and type of one call. Counts are ints, so longer data is a type of large
// blocks. The caller must free types other than MPI_BYTE.
#pragma once

#include <mpi.h>

#include "halo/message.hpp"

namespace nearfield::halo {

/// Returns the type of all strips of all fields, at their displacements from `origin`.
MPI_Datatype datatype_of(const std::vector<Strip>& strips, const std::vector<Cells>& fields, const std::byte* origin);

struct Counted {
  int count = 0;
  MPI_Datatype type = MPI_BYTE;
};

/// Returns the type of this many consecutive bytes.
Counted counted(std::size_t bytes);

void free_types(std::vector<MPI_Datatype>& types);

}  // namespace nearfield::halo

// Cells and bytes as MPI sees them: count and type of one call. Counts are ints, so what is longer is a type of large
// blocks. Types that are not MPI_BYTE are the caller's to free.
#pragma once

#include <mpi.h>

#include "halo/message.hpp"

namespace nearfield::halo {

/// All strips of all fields, at their distances from `origin`.
MPI_Datatype datatype_of(const std::vector<Strip>& strips, const std::vector<Cells>& fields, const std::byte* origin);

struct Counted {
  int count = 0;
  MPI_Datatype type = MPI_BYTE;
};

/// So many bytes one after the other.
Counted counted(std::size_t bytes);

void free_types(std::vector<MPI_Datatype>& types);

}  // namespace nearfield::halo

// Describes cells and bytes to MPI by the count and the datatype of one call. Since MPI counts are ints, more than
// INT_MAX bytes become a datatype of large blocks. The caller must free datatypes other than MPI_BYTE.
#pragma once

#include <mpi.h>

#include "halo/message.hpp"

namespace nearfield::halo {

/// Returns the committed datatype of all strips of all fields, at their displacements from `origin`.
MPI_Datatype create_strips_type(const std::vector<Strip>& strips, const std::vector<FieldArrays>& fields,
                                const std::byte* origin);

struct CountAndType {
  int count = 0;
  MPI_Datatype type = MPI_BYTE;
};

/// Returns count and datatype of this many consecutive bytes.
CountAndType create_bytes_type(std::size_t bytes);

void free_types(std::vector<MPI_Datatype>& types);

}  // namespace nearfield::halo

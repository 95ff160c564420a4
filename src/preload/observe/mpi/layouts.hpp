// The program's datatypes and their layouts. A layout is computed when the datatype is first used.
#pragma once

#include <mpi.h>

#include "trace/stream/events.hpp"

namespace nearfield::observe {

struct RecordedLayout {
  stream::Number layout_number = 0;
  std::int64_t extent_bytes = 0;
};

// Returns the layout of a datatype. If the datatype is new, writes a Layout event first.
const RecordedLayout& find_or_record_layout(MPI_Datatype type);

// Returns the description of `count` elements at `address` plus `offset_bytes`. MPI_BOTTOM counts as address 0.
template <class Count>
stream::Data describe_buffer(const void* address, Count count, MPI_Datatype type, std::int64_t offset_bytes = 0) {
  const auto from = address == MPI_BOTTOM ? 0 : reinterpret_cast<std::uintptr_t>(address);
  return {from + static_cast<stream::Number>(offset_bytes), static_cast<stream::Number>(count),
          find_or_record_layout(type).layout_number};
}

}  // namespace nearfield::observe

// Which memory of this process no allocator gave.
#pragma once

#include "stream/events.hpp"

namespace nearfield::observe {

// Is called in MPI_Init. Libraries that are loaded later are left out.
stream::Unallocated unallocated_memory();

}  // namespace nearfield::observe

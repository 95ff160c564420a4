// Address ranges of static variables and of the stack.
#pragma once

#include "trace/stream/events.hpp"

namespace nearfield::observe {

// Called in MPI_Init. Libraries that are loaded later are left out.
stream::StaticAndStackRanges static_and_stack_ranges();

}  // namespace nearfield::observe

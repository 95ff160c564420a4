// Determines the address ranges of static variables and of the stack.
#pragma once

#include "trace/stream/events.hpp"

namespace nearfield::observe {

// Returns the writable segments of the executable and of all loaded libraries, and the stack of this thread. Called in
// MPI_Init, so libraries that are loaded later are not included.
stream::StaticAndStackRanges static_and_stack_ranges();

}  // namespace nearfield::observe

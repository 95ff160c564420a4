// Routines that copy bytes between two cores, and their trade-offs.
//
// plain: memcpy of the C library. Stored lines stay in the caches of this core, but each target line that is in the
// cache of another core must be acquired first, with few of these requests in flight.
//
// streaming: non-temporal stores, which bypass the caches. They need not acquire lines and leave none in the caches of
// this core: the next reader of the result gets the lines from memory.
#pragma once

#include <cstddef>

namespace nearfield {

using Copy = void (*)(void* to, const void* from, std::size_t bytes);

void copy_plain(void* to, const void* from, std::size_t bytes);
// Returns the copy routine with the widest streaming stores that this CPU supports; copy_plain if it has none.
Copy streaming_copy();
// Returns the name of that routine: "avx512", "avx2", "sse2", "neon" or "none".
const char* streaming_copy_name();

}  // namespace nearfield

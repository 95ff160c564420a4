// Routines that copy bytes between two cores, and their trade-offs.
//
// plain: memcpy of the C library. Stored lines stay in the caches of this core. If another core's cache has a target
// line, this core must first acquire ownership of the line, and only few of these requests can be in flight.
//
// streaming: non-temporal stores, which bypass the caches. They acquire no ownership of lines and leave no lines in the
// caches of this core, so the next reader of the result gets the lines from memory.
#pragma once

#include <cstddef>

namespace nearfield {

using CopyFunction = void (*)(void* to, const void* from, std::size_t bytes);

void copy_plain(void* to, const void* from, std::size_t bytes);
// Returns the copy routine with the widest streaming stores that this CPU supports; copy_plain if it has none.
CopyFunction streaming_copy();
// Returns the name of that routine: "avx512", "avx2", "sse2", "neon" or "none".
const char* streaming_copy_name();

}  // namespace nearfield

// Routines for copying bytes between two cores, and their trade-offs.
//
// plain: the C library's memcpy. Stored lines stay in this core's caches, but each line that is in another core's cache
// must be acquired first, with few such requests in flight.
//
// streaming: non-temporal stores, which bypass the caches. They need not acquire lines and leave none in this core's
// caches: the next reader of the result gets it from memory.
#pragma once

#include <cstddef>

namespace nearfield {

using Copy = void (*)(void* to, const void* from, std::size_t bytes);

void copy_plain(void* to, const void* from, std::size_t bytes);
// Returns the copy by the widest streaming stores of this processor, or copy_plain if it has none.
Copy streaming_copy();
// Returns "avx512", "avx2", "sse2", "neon" or "none".
const char* streaming_copy_name();

}  // namespace nearfield

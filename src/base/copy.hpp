// How bytes are copied between two cores: routines to choose from, and what each is good for.
//
// plain: the C library's memcpy. What is stored stays in this core's caches, but each line that lies in another core's
// cache must be taken from there first, and few of them can be on the way at once.
//
// streaming: stores that bypass the caches (non-temporal). They need no line from anywhere, and leave none here: who
// reads the result next takes it from memory.
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

// Records the history of each byte of a program's memory: the values that were written to the byte, in their order, and
// how often each of them was read. Two runs in which every read returns the value of the same write have the same
// histories, in whatever order they access different bytes. If a read moves across a write of the same byte, the
// history changes even if old and new value are equal. The compiler's hooks (src/preload/observe/hooks.cpp) and
// messages.c call these functions.
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// Records that these bytes are read.
void nf_add_read(const void* data, size_t bytes);
// Records that these bytes are about to be overwritten. They must still have their old values.
void nf_add_write(const void* data, size_t bytes);

#ifdef __cplusplus
}
#endif

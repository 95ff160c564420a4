// What a program does with each byte of its memory, as a history: which values were written to it in which order, and
// how often each of them was read. Two runs in which every read sees the same write have the same histories, in
// whatever order they access different bytes; and a read that moves across a write of its byte changes one, even if
// both values are the same. The compiler's hooks (src/preload/observe/hooks.cpp) and the messages' layer call these.
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// The bytes are read.
void nf_add_read(const void* data, size_t bytes);
// The bytes are about to be written; they still have their old values.
void nf_add_write(const void* data, size_t bytes);

#ifdef __cplusplus
}
#endif

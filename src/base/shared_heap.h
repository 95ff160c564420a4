// Functions of the shared heap (src/preload/heap) that other preloaded libraries in the same process call. They look
// the functions up by dlsym, since the heap may not be loaded.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

// Copies `bytes` bytes from address `from` of a process on this node, as process_vm_readv does, but in user space if
// the bytes lie in the shared heap of that process. `is_owner_waiting` promises that the process waits for this copy
// and calls nearfield_heap_poll() repeatedly, so it can copy a part itself. Returns the number of bytes copied; on
// failure 0 or less, and sets errno.
ssize_t nearfield_heap_read(pid_t process, void* to, uintptr_t from, size_t bytes, int is_owner_waiting);

// Copies bytes for another process if one has requested it. Takes a few nanoseconds if none has.
void nearfield_heap_poll(void);

#ifdef __cplusplus
}
#endif

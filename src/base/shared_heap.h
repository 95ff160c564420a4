// Functions of the shared heap (src/preload/heap) that other preloaded libraries of the same process call. They look
// them up by name, since the heap may not be loaded.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

// Copies `bytes` from address `from` of a process on this node, as process_vm_readv does: in user space if they lie in
// that process's heap. `owner_waits`: that process waits until this copy is done, and meanwhile calls
// nearfield_heap_poll() again and again, so it can copy a part. Returns the number of bytes copied; 0 or less if none,
// with errno.
ssize_t nearfield_heap_read(pid_t process, void* to, uintptr_t from, size_t bytes, int owner_waits);

// Copies if another process has requested that. Takes some nanoseconds if none has.
void nearfield_heap_poll(void);

#ifdef __cplusplus
}
#endif

// The kernel's own process_vm_readv and process_vm_writev, which no other library stands before.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

namespace nearfield::heap {

// `call`: SYS_process_vm_readv or SYS_process_vm_writev. Returns as they do, and sets errno.
ssize_t kernel_copies(long call, pid_t pid, const iovec* local, unsigned long local_count, const iovec* remote,
                      unsigned long remote_count, unsigned long flags);

// Does the two calls in user space if possible (vm_calls.cpp).
ssize_t move(long call, pid_t pid, const iovec* local, unsigned long local_count, const iovec* remote,
             unsigned long remote_count, unsigned long flags);

}  // namespace nearfield::heap

// The kernel's own process_vm_readv and process_vm_writev, which no other library stands before.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

namespace nearfield::heap {

// `call`: SYS_process_vm_readv or SYS_process_vm_writev. Returns as they do, and sets errno.
ssize_t kernel_copies(long call, pid_t pid, const iovec* local, unsigned long local_count, const iovec* remote,
                      unsigned long remote_count, unsigned long flags);

// One of the two calls as it was made.
struct Original {
  long number;
  pid_t pid;
  const iovec* local;
  unsigned long local_count;
  const iovec* remote;
  unsigned long remote_count, flags;

  ssize_t by_kernel() const { return kernel_copies(number, pid, local, local_count, remote, remote_count, flags); }
};

// Does the call in user space if possible (vm_calls.cpp). `caller` is the code that made it; nullptr if not known.
ssize_t move(const Original& original, const void* caller);

}  // namespace nearfield::heap

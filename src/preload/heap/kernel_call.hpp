// Copies that do not use the shared heap: the kernel's own process_vm_readv and process_vm_writev, on which no other
// library interposes, and what replaces them where they are forbidden.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

namespace nearfield::heap {

// `call`: SYS_process_vm_readv or SYS_process_vm_writev. Returns what they return, and sets errno.
ssize_t kernel_copies(long call, pid_t pid, const iovec* local, unsigned long local_count, const iovec* remote,
                      unsigned long remote_count, unsigned long flags);

// Returns whether the kernel lets this process read the memory of that one.
bool kernel_may_read(pid_t pid);

// Same as kernel_copies(), but if the kernel forbids it, the owner of the memory makes the copy (copy_service.hpp).
ssize_t copy_without_heap(long call, pid_t pid, const iovec* local, unsigned long local_count, const iovec* remote,
                          unsigned long remote_count, unsigned long flags);

// The arguments of one of the two calls.
struct Original {
  long number;
  pid_t pid;
  const iovec* local;
  unsigned long local_count;
  const iovec* remote;
  unsigned long remote_count, flags;

  ssize_t without_heap() const {
    return copy_without_heap(number, pid, local, local_count, remote, remote_count, flags);
  }
};

// Says whether the process whose memory is read waits for the copy, and so can make a part of it, or is busy.
enum class Owner { unknown, waits, is_busy };

// Performs the call in user space if possible (vm_calls.cpp). `caller`: the code that made it; nullptr if unknown.
ssize_t cma_transfer(const Original& original, const void* caller, Owner owner = Owner::unknown);

}  // namespace nearfield::heap

// Copies between processes without the shared heap: by process_vm_readv and process_vm_writev as direct system calls,
// on which no other library interposes, or by the owner of the memory if the kernel forbids these.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

namespace nearfield::heap {

// Makes the system call SYS_process_vm_readv or SYS_process_vm_writev. Returns the number of bytes copied; -1 on
// failure, with errno.
ssize_t copy_by_kernel(long syscall_number, pid_t pid, const iovec* local, unsigned long local_count,
                       const iovec* remote, unsigned long remote_count, unsigned long flags);

// Returns whether the kernel lets this process read the memory of process `pid`.
bool kernel_may_read(pid_t pid);

// Same as copy_by_kernel(), but if the kernel forbids the call, the owner of the memory makes the copy
// (copy_service.hpp).
ssize_t copy_without_heap(long syscall_number, pid_t pid, const iovec* local, unsigned long local_count,
                          const iovec* remote, unsigned long remote_count, unsigned long flags);

// The arguments of a call of process_vm_readv or process_vm_writev.
struct CmaCall {
  long syscall_number;
  pid_t pid;
  const iovec* local;
  unsigned long local_count;
  const iovec* remote;
  unsigned long remote_count, flags;

  ssize_t run_without_heap() const {
    return copy_without_heap(syscall_number, pid, local, local_count, remote, remote_count, flags);
  }
};

// The activity of the process whose memory is read or written: it waits for the copy, so that it can copy a part
// itself, or it is busy.
enum class OwnerActivity { unknown, waiting, busy };

// Performs the call in user space if possible (vm_calls.cpp), and returns its result. `caller`: the address of the code
// that made the call; nullptr if unknown.
ssize_t cma_transfer(const CmaCall& original, const void* caller,
                     OwnerActivity owner_activity = OwnerActivity::unknown);

}  // namespace nearfield::heap

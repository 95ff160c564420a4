// Requests to peers that serve copies of their memory (copy_service.hpp), where the kernel forbids process_vm_readv.
//
// Threads: every function may be called by any thread; requests to one peer are made one after the other.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>

namespace nearfield::heap {

// Parameters and results of process_vm_readv or process_vm_writev (`writes`). Fails with EPERM if the peer serves no
// copies, and with ESRCH if it has ended.
ssize_t copy_by_owner(bool writes, pid_t pid, const iovec* local, unsigned long local_count, const iovec* remote,
                      unsigned long remote_count);

// Returns whether the peer serves copies to this process.
bool peer_serves_copies(pid_t pid);

// Counts the copies that owners of memory have made for this process, and their bytes; `bounced` are those through
// their bounce buffers (bounce_copy.hpp).
struct OwnerCopies {
  std::size_t copies, bytes, bounced;
};
OwnerCopies owner_copies();
void count_owner_copy(std::size_t bytes);
void count_bounce(std::size_t bytes);

// Returns a descriptor of the file of a peer's heap; -1 if it has none.
int request_heap_file(pid_t pid);

// Called in a forked child, which has no connections.
void reset_copy_requests();

}  // namespace nearfield::heap

// Sends requests to peers that serve copies of their memory (copy_service.hpp), where the kernel forbids
// process_vm_readv.
//
// Thread-safe. Requests to one peer are made one after the other.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>

namespace nearfield::heap {

// Copies through the peer's service thread, with the parameters and results of process_vm_readv, or of
// process_vm_writev if `is_write`. Fails with EPERM if the peer serves no copies, and with ESRCH if the peer has ended.
ssize_t copy_by_owner(bool is_write, pid_t pid, const iovec* local, unsigned long local_count, const iovec* remote,
                      unsigned long remote_count);

// Returns whether the peer serves copies to this process.
bool peer_serves_copies(pid_t pid);

// Counts the copies that the owners of memory have made for this process, the bytes of these copies, and those of them
// that went through a bounce buffer (bounce_copy.hpp).
struct OwnerCopies {
  std::size_t num_copies, bytes, num_bounce_copies;
};
OwnerCopies owner_copy_counts();
void count_owner_copy(std::size_t bytes);
void count_bounce_copy(std::size_t bytes);

// Returns a descriptor of the file of a peer's heap; -1 if it has none.
int request_heap_file(pid_t pid);

// Called in a forked child: closes the parent's connections.
void reset_copy_requests();

}  // namespace nearfield::heap

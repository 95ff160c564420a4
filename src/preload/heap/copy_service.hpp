// Copies between the processes of a job where the kernel forbids process_vm_readv and process_vm_writev: in containers
// without CAP_SYS_PTRACE, between user namespaces, and under Yama's scopes 2 and 3. The owner of the memory takes part
// in the copy, by a thread that sleeps in the kernel until a peer requests one.
//
// Each process listens on a Unix socket with an abstract name, which contains its process ID and lies in no folder. The
// kernel tells each end who the other one is (SO_PEERCRED): a server requires its own user, and a client also the
// process that it looks for. A request carries the job's key (NEARFIELD_HEAP_KEY), which nearfield draws for each
// launch. Without a key nothing listens.
//
// The memory passes through the socket, in packets. A packet is written from the memory, or read into it, by the
// kernel, so an address that is not mapped ends in EFAULT, as it does with process_vm_readv, and never in a signal.
// The peer's heap file arrives by SCM_RIGHTS; messages in shared pages do not pass through the socket.
//
// Limits: both processes are in one network namespace and one PID namespace. The memory of any other process of the
// same user that knows the key can be read; under ptrace's rules it could be as well, if the kernel did not forbid it.
//
// Threads: the client's functions may be called by any thread; requests to one peer are made one after the other.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>

namespace nearfield::heap {

// Called before MPI_Init: starts the thread if there is a key and the kernel may forbid a peer's copies. A second call
// does nothing.
void start_copy_service();

// Returns whether this process serves copies, and so may expect its peers to do so.
bool serves_copies();

// Parameters and results of process_vm_readv or process_vm_writev (`writes`). Fails with EPERM if the peer serves no
// copies, and with ESRCH if it has ended.
ssize_t copy_by_owner(bool writes, pid_t pid, const iovec* local, unsigned long local_count, const iovec* remote,
                      unsigned long remote_count);

// Returns whether the peer serves copies to this process.
bool peer_serves_copies(pid_t pid);

// What owners have copied for this process.
struct OwnerCopies {
  std::size_t copies, bytes;
};
OwnerCopies owner_copies();
void count_owner_copy(std::size_t bytes);

// Returns a descriptor of the file of a peer's heap; -1 if it has none.
int request_heap_file(pid_t pid);

// Called in a forked child, which serves nothing and has no connections.
void reset_copy_service();

}  // namespace nearfield::heap

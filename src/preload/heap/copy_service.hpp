// Copies between the processes of a job where the kernel forbids process_vm_readv and process_vm_writev: in containers
// with a strict filter of system calls, between user namespaces, and under Yama's scopes 2 and 3. The owner of the
// memory takes part in the copy, by a thread that sleeps in the kernel until a peer requests one.
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
// Limits: both processes are in one network namespace and one PID namespace. A process of the same user that knows the
// key can read and write all memory of a rank, as it could by ptrace if the kernel did not forbid that.
//
// The other end is in copy_requests.hpp; copy_protocol.hpp has what both share.
#pragma once

namespace nearfield::heap {

// Called before MPI_Init: starts the thread if there is a key and the kernel may forbid a peer's copies. A second call
// does nothing.
void start_copy_service();

// Returns whether this process serves copies, and so may expect its peers to do so.
bool serves_copies();

// Called in a forked child, which serves nothing.
void reset_copy_service();

}  // namespace nearfield::heap

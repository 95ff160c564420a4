// Copies between the processes of a job where the kernel forbids process_vm_readv and process_vm_writev: in containers
// with a strict filter of system calls, between user namespaces, and under Yama's scopes 2 and 3. The owner of the
// memory serves the copy: its service thread sleeps in the kernel until a peer sends a request.
//
// Each process listens on a Unix socket with an abstract name, which contains the process ID and has no file. Each end
// learns the other end's user and process ID from the kernel (SO_PEERCRED): a server accepts clients of its own user; a
// client also requires the process ID of its peer. A request carries the job's key (NEARFIELD_HEAP_KEY), which
// nearfield draws at random for each launch. A process without a key does not listen.
//
// The payload passes through the socket in packets. The kernel copies a packet from or to the memory, so an address
// that is not mapped causes EFAULT, as with process_vm_readv, and never a signal. A client receives the descriptor of
// its peer's heap file by SCM_RIGHTS; messages in shared pages do not pass through the socket.
//
// Limits: both processes must be in one network namespace and one PID namespace. A process of the same user that knows
// the key can read and write all memory of a rank, as it could by ptrace if the kernel did not forbid ptrace.
//
// This is the server; copy_requests.hpp is the client, and copy_protocol.hpp defines the packets.
#pragma once

namespace nearfield::heap {

// Called before MPI_Init: starts the service thread if this process has a key and the kernel may forbid its peers'
// copies. A second call does nothing.
void start_copy_service();

// Returns whether this process serves copies, and so may expect its peers to do so.
bool serves_copies();

// Called in a forked child, which serves no copies: closes the parent's sockets.
void reset_copy_service();

}  // namespace nearfield::heap

// Detects system call filters (seccomp) that kill a process for calls which the heap makes and an MPI alone does not.
#pragma once

namespace nearfield::heap {

// Called once, by the library's constructor. Returns whether a process survives the heap's system calls. If filters are
// installed, a forked child tries the calls.
bool survives_syscall_filters();

// Returns whether no filter has been installed since survives_syscall_filters().
bool has_same_syscall_filters();

}  // namespace nearfield::heap

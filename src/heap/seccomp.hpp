// Filters of system calls (seccomp) that end a process for calls which the heap makes and an MPI alone does not.
#pragma once

namespace nearfield::heap {

// Called once, by the library's constructor. Returns whether the heap's calls are survived: where filters are installed,
// a child tries them.
bool survives_filters();

// Returns whether no filter was installed since then.
bool has_same_filters();

}  // namespace nearfield::heap

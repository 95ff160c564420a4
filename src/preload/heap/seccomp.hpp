// Detects system call filters (seccomp) that kill a process for calls which the heap makes and an MPI alone does not.
#pragma once

namespace nearfield::heap {

// Called once, by the library's constructor. Returns whether processes survive the heap's calls; if filters are
// installed, a child tries them.
bool survives_filters();

// Returns whether no filter has been installed since then.
bool has_same_filters();

}  // namespace nearfield::heap

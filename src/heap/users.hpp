// Who may be using a page of this process at this moment, besides the thread that asks?
//
// A page can move into shared memory only while nobody writes to it, since what is written between the copy and the
// change of the mapping would be lost. The kernel offers nothing that holds up writers, system calls and devices
// included, so there is a list of what is known to be harmless; what is not on it is taken for a user of every page.
//
//   threads   The caller is the program's first thread, and all others were started by libraries of an MPI's runtime
//             that handle control messages alone (PMIx, PRRTE, UCX's and Open MPI's event threads), which write to no
//             buffer of the program; or by OpenBLAS, whose threads work only while the thread that has called it waits
//             there. A library is recognized by where the thread's first function lies.
//   pages     No page is locked (mlock) or pinned for a device (VmPin). MPIs pin pages for network cards; their caches
//             of such pages watch munmap and mmap, so that the inside of a message may move all the same.
//   devices   No descriptor is of a device that may keep addresses of pages: only terminals, /dev/null and its like,
//             and InfiniBand's (see above) are harmless. io_uring and asynchronous input are not.
#pragma once

namespace nearfield::heap {

enum class Users {
  nobody,   // nobody else uses any page
  threads,  // threads of the program, or network cards: they leave the inside of a message alone while it is under way
  unknown,  // somebody may use every page at any time
};

// Returns who may be using this process's memory besides the calling thread. Takes some system calls.
Users other_users();

// Called once, by the library's constructor. Threads that were started before are taken for the program's.
void watch_threads();

// Is called in a child of fork, which has one thread.
void forget_threads();

}  // namespace nearfield::heap

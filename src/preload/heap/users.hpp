// Determines who, apart from the calling thread, may be using pages of this process.
//
// A page can move into shared memory only while nobody writes to it, because a write between the copy and the change of
// the mapping would be lost. The kernel cannot block all writers, including system calls and devices, so there is a
// list of what is known to be harmless; anything else is assumed to use every page.
//
//   threads   The caller is the program's first thread, and all others were started by runtime libraries of an MPI that
//             handle control messages only (event threads of PMIx, PRRTE, UCX and Open MPI) and write to no buffer of
//             the program, or by OpenBLAS, whose threads work only while the calling thread waits for them; or by this
//             library (copy_service.hpp), whose thread writes only what a peer announces (Copying). A library is
//             recognised by the location of the thread's start function.
//   pages     No page is locked (mlock) or pinned for a device (VmPin). MPIs pin pages for network cards; their caches
//             of such pages monitor munmap and mmap, so pages inside a message may move nevertheless.
//   devices   No descriptor refers to a device that may retain addresses of pages: only terminals, /dev/null and the
//             like, and InfiniBand's (see above) are harmless. io_uring and asynchronous I/O are not.
#pragma once

namespace nearfield::heap {

enum class Users {
  none,     // nobody else uses any page
  threads,  // program threads or network cards: they do not access the inside of a message in flight
  unknown,  // anything may be used at any time
};

// Returns who may be using this process's memory besides the calling thread. Makes some system calls.
Users other_users();

// Called once, by the library's constructor. Threads started earlier are assumed to be the program's.
void watch_threads();

// Called in a forked child, which has one thread.
void forget_threads();

}  // namespace nearfield::heap

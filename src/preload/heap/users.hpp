// Determines which threads and devices, apart from the calling thread, may be using pages of this process.
//
// A page can move into shared memory only while nobody writes to it, because a write between the copy and the change of
// the mapping would be lost. The kernel cannot block all writers, including system calls and devices. So every thread
// and device is assumed to use every page unless it is known to be harmless. These are harmless:
//
//   threads   If the caller is the program's first thread: threads of an MPI's runtime libraries that handle control
//             messages only (event threads of PMIx, PRRTE, UCX and Open MPI) and write to no buffer of the program;
//             threads of OpenBLAS, which work only while the calling thread waits for them; and this library's thread
//             (copy_service.hpp), which writes only what a peer announces (CopyAnnouncement). A library is
//             recognised by the location of the thread's start function.
//   pages     Pages of a process that has locked none (mlock) and pinned none for a device (VmPin). MPIs pin pages for
//             network cards; their caches of pinned pages monitor munmap and mmap, so pages inside a message may move
//             nevertheless.
//   devices   Descriptors that cannot retain addresses of pages: among devices only terminals, /dev/null and the like,
//             and InfiniBand (its pages are pinned). io_uring and asynchronous I/O are not harmless.
#pragma once

namespace nearfield::heap {

enum class MemoryUsers {
  none,     // no other thread and no device uses any page
  threads,  // threads of the program or network cards may use any page that does not lie inside a message in flight
  unknown,  // any page may be used at any time
};

// Returns which threads and devices, apart from the calling thread, may be using this process's memory. Makes system
// calls.
MemoryUsers find_other_memory_users();

// From now on pthread_create() records harmless threads. Called once, by the library's constructor; threads started
// earlier are assumed to be the program's.
void start_recording_harmless_threads();

// Called in a forked child, which has one thread: clears the records of harmless threads.
void forget_harmless_threads();

}  // namespace nearfield::heap

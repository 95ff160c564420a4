// Handles forks: the child gets private memory with the content of the heap at the time of the fork.
//
// Private pages are copied by the kernel, as in any other heap. Shared pages become private before the fork if no other
// thread or device uses them (users.hpp). Otherwise the child copies the shared pages while the parent waits, so that
// threads that write to them, and network cards, keep the same physical pages.
//
// Children that share the parent's memory until they exec (vfork, posix_spawn, popen, system) are not affected. If a
// child is created without fork handlers, by clone() or syscall(), all pages become private first (remapped.cpp).
#pragma once

namespace nearfield::heap {

// Registers the fork handlers. Called once, before the program has threads.
void register_fork_handlers();

}  // namespace nearfield::heap

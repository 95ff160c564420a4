// When the program forks, the child gets private memory with the heap's content of that moment.
//
// Private pages of the heap are the kernel's affair, as in any other heap. Shared pages, those through which messages
// pass, become private before the fork if nobody else uses them (users.hpp). Otherwise the child copies them while the
// parent waits, so that they stay the same pages for threads that write to them and for network cards.
//
// Children that share the parent's memory until they exec (vfork, posix_spawn, popen, system) have nothing to do with
// it. Before a child is made past fork's handlers, by clone() or syscall(), all pages become private (remapped.cpp).
#pragma once

namespace nearfield::heap {

// Called once, before the program has threads.
void watch_forks();

}  // namespace nearfield::heap

// When the program forks, the child gets private memory with the heap's content at that moment.
//
// The kernel handles private pages, as in any other heap. Shared pages become private before the fork if nobody else
// uses them (users.hpp). Otherwise the child copies them while the parent waits, so that they remain the same pages for
// threads that write to them and for network cards.
//
// Children that share the parent's memory until they exec (vfork, posix_spawn, popen, system) are not affected. If a
// child is created without fork's handlers, by clone() or syscall(), all pages become private first (remapped.cpp).
#pragma once

namespace nearfield::heap {

// Called once, before the program has threads.
void watch_forks();

}  // namespace nearfield::heap

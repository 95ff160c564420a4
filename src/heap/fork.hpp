// When the program forks, the child gets private memory with the heap's content of that moment.
//
// The child copies the heap and the parent waits for it, so that the parent's heap stays what it is: shared with its
// peers, and the same pages that a network card may have registered. Longer heaps than 1 GiB become private by the
// kernel's copy on write instead (Region::retire), which takes no time and no memory; not where pages are registered,
// since the parent's next write would move them away from the card.
//
// Children that share the parent's memory until they exec (vfork, posix_spawn, popen, system) have nothing to do with
// it. A child that was made by clone() without fork's handlers has no heap blocks.
#pragma once

namespace nearfield::heap {

// Called once, before the program has threads.
void watch_forks();

}  // namespace nearfield::heap

// The memory from which this process takes its boxes: one file without a name, which the other processes of the node
// map read-only. It ends with the last process that has it open or mapped, however that process ends.
//
// A peer opens it as /proc/PID/fd/N, for which the kernel requires that the peer could read this process's state: the
// same user, and not a process that hides itself (PR_SET_DUMPABLE).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "collectives/box.hpp"

namespace nearfield::collectives {

// How peers find this process's arena. Text of a process: of the same node if `host` is equal.
struct ArenaAddress {
  std::uint64_t host;   // of the kernel's boot and the namespace of process IDs
  std::uint64_t nonce;  // stands at the arena's begin
  std::int64_t pid, file;
};

// Returns this process's arena, which the first call makes; a `host` of 0 if it cannot be made.
const ArenaAddress& own_arena();

// Returns the offset of a free box in this process's arena; 0 if there is none. Its counters but `closed` are 0.
std::size_t take_box();
// Returns the box at this offset of this process's arena.
Box* own_box(std::size_t offset);
// Returns the box at this offset of a peer's arena, mapped read-only; null if that is impossible.
Box* peer_box(const ArenaAddress& peer, std::size_t offset);

// Frees a box that take_box() returned. It is taken again only after all ranks have closed theirs: `boxes` are those of
// all ranks, `closed` the values of their counters before this communicator used them.
void release_box(std::size_t offset, Box* const* boxes, const std::uint64_t* closed, int ranks);

}  // namespace nearfield::collectives

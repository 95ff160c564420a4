// The memory from which this process allocates its boxes: an anonymous file (memfd_create), which the other processes
// of the node map read-only. The kernel frees the file when the last process that has it open or mapped ends, even by a
// crash.
//
// A peer opens the file as /proc/PID/fd/N. For this, the kernel requires that the peer has the permission to read this
// process's state: the same user, and a process that is dumpable (PR_SET_DUMPABLE).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "collectives/box.hpp"

namespace nearfield::collectives {

// Identifies the arena of a process to its peers. Two processes are on the same node if their `host` is equal.
struct ArenaAddress {
  std::uint64_t host;   // hash of the kernel's boot ID and the PID namespace; 0: the process has no arena
  std::uint64_t nonce;  // random number at the beginning of the arena
  std::int64_t pid, file_descriptor;
};

// Returns the address of this process's arena. The first call creates the arena; if that fails, `host` is 0.
const ArenaAddress& own_arena();

// Allocates a box in this process's arena. Returns its offset; 0 if there is no free box. All counters of the box but
// `closed` are 0.
std::size_t allocate_box();
// Returns the box at `offset` in this process's arena.
Box* own_box(std::size_t offset);
// Returns the box at `offset` in a peer's arena, mapped read-only; null if the arena cannot be mapped.
Box* peer_box(const ArenaAddress& peer, std::size_t offset);

// Frees a box that allocate_box() has returned. The box is reused only after all ranks have freed theirs: `boxes` are
// the boxes of all ranks, and `closed_before` the values of their counters `closed` before this communicator used the
// boxes.
void release_box(std::size_t offset, Box* const* boxes, const std::uint64_t* closed_before, int num_ranks);

}  // namespace nearfield::collectives

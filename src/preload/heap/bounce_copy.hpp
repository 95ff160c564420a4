// Copies private memory of a peer that waits inside the MPI, where the kernel forbids the reader to make the copy: the
// owner copies it into a bounce buffer in its file, and the reader follows close behind. That costs two copies, which
// overlap, and no system call. The socket (copy_service.hpp) serves for what remains: an owner that computes, an MPI
// without progress callbacks (progress.hpp).
//
// The request takes the same steps as that for a cooperative copy (cooperative_copy.hpp), of which a heap has one at a
// time; so the buffer belongs to one reader until that has copied everything. The owner never waits for the reader.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/heap/region.hpp"

namespace nearfield::heap {

class Peer;

// Copies up to `bytes` from address `from` of the peer. Returns how many; fewer if the peer does not poll, or has died.
std::size_t read_by_bounce(Peer& peer, char* to, std::uintptr_t from, std::size_t bytes);

// Called by the owner, which has taken the request.
void fill_bounce(CopyRequest& request);

}  // namespace nearfield::heap

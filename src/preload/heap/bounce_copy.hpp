// Reads private memory of a peer that waits inside the MPI, where the kernel forbids process_vm_readv: the owner of the
// memory copies it into the bounce buffer in its file, chunk by chunk, and the reader copies each chunk out of the
// buffer. The two copies overlap, and need no system call. If the owner computes, or its MPI has no progress callbacks
// (progress.hpp), the copy is made through the socket (copy_service.hpp).
//
// The request is a CopyRequest, as for a cooperative copy (cooperative_copy.hpp). A heap has one request at a time, so
// the buffer belongs to one reader until that reader has copied everything. The owner never waits for the reader.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/heap/region.hpp"

namespace nearfield::heap {

class Peer;

// Copies up to `bytes` bytes from address `from` of the peer. Returns the number of bytes copied: fewer, or 0, if
// another request is posted, or the peer does not poll for requests or has died.
std::size_t read_through_bounce_buffer(Peer& peer, char* to, std::uintptr_t from, std::size_t bytes);

// Called by the owner after it has taken the request: copies the requested memory into the bounce buffer.
void fill_bounce_buffer(CopyRequest& request);

}  // namespace nearfield::heap

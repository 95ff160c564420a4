// Cooperative copies: while a receiver copies a message out of its sender's memory, the sender, which usually waits
// inside the MPI for the end of that copy, copies from the back of the message. Two cores copy a long message up to 1.6
// times as fast as one core, since each has its own outstanding cache misses.
//
// A receiver posts a request in the header of the sender's region. The sender polls for requests whenever its MPI makes
// progress, through a callback that the MPI supports (progress.hpp). Both claim chunks, the receiver from the front,
// the sender from the back, until none is left; then the receiver waits for the sender's last chunk. A sender that
// computes never sees the request, and the receiver copies everything. If the sender dies, which
// HeapFileHeader::has_owner_died shows, its chunks are copied again.
//
// Threads: a sender serves one copy request at a time; a receiver that finds the slot taken copies alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/copy.hpp"
#include "preload/heap/region.hpp"

namespace nearfield::heap {

class Peer;

enum class Cooperation { not_requested, declined, cooperated };

// Copies `bytes` from the peer's memory, mapped at `from` in this process and at address `owner_address` in the peer,
// to `to`. Returns whether the peer copied a part. `not_requested`: nothing was copied, since another request is posted
// in the peer's header.
Cooperation copy_cooperatively(Peer& peer, char* to, const char* from, std::uintptr_t owner_address, std::size_t bytes,
                               CopyFunction copy);

// Called by a receiver whose request the sender has taken: waits until the sender has finished its part. Returns false
// if the sender has died.
bool wait_until_finished(const Peer& peer, const CopyRequest& request);

// Progress callback of the MPI, which calls it repeatedly while it waits: serves the request of a receiver to copy or
// to share pages, if one is posted. Returns the number of served requests, 0 or 1.
int poll_copy_requests();

// Requests from a message's owner to share the message's pages, while this process copies the message by the kernel.
// The message is in flight during the lifetime of the object, and the owner may share the pages in that time: if the
// owner has taken the request, the destructor waits until the owner has finished. If not, the destructor replaces the
// request by a ShareHint.
class ShareRequest {
 public:
  // `is_mpi_message`: an MPI library copies the memory.
  ShareRequest(Peer& peer, std::uintptr_t from, std::size_t bytes, bool is_mpi_message);
  ~ShareRequest();
  ShareRequest(const ShareRequest&) = delete;
  ShareRequest& operator=(const ShareRequest&) = delete;

 private:
  void post_hint(std::uintptr_t from, std::size_t bytes);

  Peer& peer_;
  bool is_posted_ = false;
};

}  // namespace nearfield::heap

// Cooperative copies: while a receiver copies a message out of its sender's memory, the sender, which usually waits
// inside the MPI for that, copies from the other end of the message. Two cores copy a long message up to 1.6 times as
// fast as one, since each has its own outstanding misses.
//
// A receiver posts a request in the header of the sender's region. The sender polls for requests whenever its MPI makes
// progress, through a callback that the MPI supports (progress.hpp). Both claim chunks, the receiver from the front,
// the sender from the back, until none is left; then the receiver waits for the sender's last chunk. A sender that
// computes never sees the request, and the receiver copies everything. If the sender dies, which Header::owner_died
// shows, its chunks are copied again.
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

// Copies `bytes` from the peer's memory, mapped at `from` in this process and at address `remote` in the peer, to `to`.
// Returns whether the peer copied a part. `not_requested`: nothing was copied, since the peer has another request.
Cooperation cooperative_copy(Peer& peer, char* to, const char* from, std::uintptr_t remote, std::size_t bytes,
                             Copy copy);

// Called by a receiver whose request the sender has taken: waits until the sender has finished its part. Returns false
// if it has died.
bool wait_until_finished(const Peer& peer, const CopyRequest& request);

// The MPI calls this repeatedly while it waits. Copies, or shares pages, if a receiver has requested that. Returns the
// number of requests.
int poll_copy_requests();

// Requests that the owner of a message shares its pages, while the kernel copies it. The owner may do so during the
// lifetime of this object, and the destructor waits for it, since the message is in flight until then. If the owner
// does not notice the request, it finds a hint later.
class ShareRequest {
 public:
  // `is_message`: an MPI library copies the memory.
  ShareRequest(Peer& peer, std::uintptr_t from, std::size_t bytes, bool is_message);
  ~ShareRequest();
  ShareRequest(const ShareRequest&) = delete;
  ShareRequest& operator=(const ShareRequest&) = delete;

 private:
  void post_hint(std::uintptr_t from, std::size_t bytes);

  Peer& peer_;
  bool is_posted_ = false;
};

}  // namespace nearfield::heap

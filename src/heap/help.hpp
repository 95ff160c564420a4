// Both ends copy: while a receiver copies a message out of its sender's memory, the sender, which mostly waits inside
// the MPI for that, copies from the other end of the message. Two cores move a long message up to 1.6 times as fast as
// one, since each has its own misses on the way.
//
// A receiver posts an order in the header of the sender's region. The sender looks for orders whenever its MPI makes
// progress, by a callback that the MPI offers (progress.hpp). Each end takes chunks, the receiver from the front, the
// sender from the back, until none is left; then the receiver waits for the sender's last chunk. A sender that computes
// never sees the order, and the receiver copies all of it. A sender that dies is noticed by Header::owner_died, and its
// chunks are copied again.
//
// Threads: one order at a time for each sender; who finds an order there copies alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/copy.hpp"

namespace nearfield::heap {

class Peer;

enum class Helped { not_asked, not_helped, helped };

// Copies `bytes` from the peer's memory, mapped here at `from` and known there as `there`, to `to`, and returns whether
// the peer helped. `not_asked`: nothing was copied, since the peer has another order.
Helped copy_with_help(Peer& peer, char* to, const char* from, std::uintptr_t there, std::size_t bytes, Copy copy);

// The MPI calls this repeatedly while it waits: copies or shares pages if a receiver has asked for it. Returns the number
// of orders.
int look_for_orders();

// Asks the owner of a message to share its pages, while the kernel copies it. The owner may do so as long as this
// exists, and is waited for at the end, since the message is under way until then. If the owner does not notice, it
// finds a wish later.
class ShareRequest {
 public:
  // `is_message`: an MPI library copies the memory.
  ShareRequest(Peer& peer, std::uintptr_t from, std::size_t bytes, bool is_message);
  ~ShareRequest();
  ShareRequest(const ShareRequest&) = delete;
  ShareRequest& operator=(const ShareRequest&) = delete;

 private:
  void wish(std::uintptr_t from, std::size_t bytes);

  Peer& peer_;
  bool is_posted_ = false;
};

}  // namespace nearfield::heap

#include "preload/heap/cooperative_copy.hpp"

#include <sched.h>

#include "base/export.h"
#include "base/shared_heap.h"
#include "preload/heap/bounce_copy.hpp"
#include "preload/heap/heap.hpp"
#include "preload/heap/peers.hpp"
#include "preload/heap/region.hpp"
#include "preload/heap/sharing.hpp"

namespace nearfield::heap {
namespace {

constexpr std::size_t chunk_bytes = std::size_t{8} << 10, max_chunks = 32;
constexpr int spins_before_yield = 2000;

std::uint32_t chunk_count_for(std::size_t bytes) {
  const std::size_t chunks = bytes / chunk_bytes;
  return static_cast<std::uint32_t>(chunks < 2 ? 2 : chunks > max_chunks ? max_chunks : chunks);
}

// Returns the offset in bytes of chunk i of a message. Chunks are whole cache lines; the last one includes the
// remainder.
std::size_t chunk_offset(std::uint32_t i, std::uint32_t chunks, std::size_t bytes) {
  return i == chunks ? bytes : bytes / chunks / 64 * 64 * i;
}

void copy_chunk(Copy copy, char* to, const char* from, std::uint32_t i, std::uint32_t chunks, std::size_t bytes) {
  const std::size_t begin = chunk_offset(i, chunks, bytes);
  copy(to + begin, from + begin, chunk_offset(i + 1, chunks, bytes) - begin);
}

bool post_copy_request(CopyRequest& request, std::uintptr_t remote, char* to, std::size_t bytes, Copy copy) {
  if (!request.reserve()) return false;
  request.kind = CopyRequest::copy;
  request.streaming = copy != copy_plain;
  request.reader = own_process_id();
  request.chunks = chunk_count_for(bytes);
  request.from = remote;
  request.to = reinterpret_cast<std::uintptr_t>(to);
  request.bytes = bytes;
  request.claimed.store(0, std::memory_order_relaxed);
  request.post();
  return true;
}

// Called by the sender: copies chunks from the back of the message until sender and receiver have claimed all chunks.
void copy_from_back(CopyRequest& request, char* to) {
  const std::uint32_t chunks = request.chunks;
  const Copy copy = request.streaming ? streaming_copy() : copy_plain;
  for (std::uint32_t i = chunks; request.claimed.fetch_add(1) < chunks;) {
    --i;
    const std::size_t begin = chunk_offset(i, chunks, request.bytes);
    prefault_writable(to + begin, chunk_offset(i + 1, chunks, request.bytes) - begin);
    copy_chunk(copy, to, reinterpret_cast<const char*>(request.from), i, chunks, request.bytes);
  }
}

}  // namespace

bool wait_until_finished(const Peer& peer, const CopyRequest& request) {
  for (int spins = 0; request.state.load(std::memory_order_acquire) != CopyRequest::finished; ++spins) {
    if (spins < spins_before_yield) continue;
    if (peer.is_gone()) return false;
    sched_yield();
  }
  return true;
}

Cooperation cooperative_copy(Peer& peer, char* to, const char* from, std::uintptr_t remote, std::size_t bytes,
                             Copy copy) {
  CopyRequest& request = peer.header()->copy_request;
  if (!post_copy_request(request, remote, to, bytes, copy)) return Cooperation::not_requested;
  const std::uint32_t chunks = request.chunks;
  std::uint32_t own = 0;
  while (request.claimed.fetch_add(1) < chunks) copy_chunk(copy, to, from, own++, chunks, bytes);
  if (!request.withdraw()) {
    if (!wait_until_finished(peer, request))
      for (std::uint32_t i = own; i < chunks; ++i) copy_chunk(copy, to, from, i, chunks, bytes);
    request.state.store(CopyRequest::none, std::memory_order_release);
  }
  peer.record_cooperation(own < chunks);
  return own < chunks ? Cooperation::cooperated : Cooperation::declined;
}

namespace {

// Copies chunks of the requested message to the reader's heap. Does nothing if the reader's pages are not all shared.
void execute_copy(CopyRequest& request) {
  PeerGuard guard;
  Peer* reader = in_heap(request.to) ? find_peer(request.reader) : nullptr;
  if (!reader) return;
  const Copying copying(*reader, true);
  if (reader->leading_shared_bytes(request.to, request.bytes) != request.bytes) return;
  std::size_t contiguous = 0;
  char* to = reader->is_open() ? reader->mapped_address(request.to - heap_begin, true, contiguous) : nullptr;
  if (!to || contiguous < request.bytes) return;
  reader->add_copied_bytes(request.bytes);
  copy_from_back(request, to);
}

}  // namespace

int poll_copy_requests() {
  Header* header = own_header();
  if (!header) return 0;
  CopyRequest& request = header->copy_request;
  if (request.has_share_hint.load(std::memory_order_relaxed)) {
    request.has_share_hint.store(0);  // cleared first, since a peer sets it after posting its hint
    handle_share_hint();
  }
  if (request.state.load(std::memory_order_relaxed) != CopyRequest::posted) return 0;
  std::uint32_t posted = CopyRequest::posted;
  if (!request.state.compare_exchange_strong(posted, CopyRequest::taken)) return 0;
  if (request.kind == CopyRequest::copy)
    execute_copy(request);
  else if (request.kind == CopyRequest::bounce)
    fill_bounce(request);
  else if (in_heap(request.from))
    share_message(reinterpret_cast<const char*>(request.from), request.bytes, request.is_message != 0);
  request.state.store(CopyRequest::finished, std::memory_order_release);
  return 1;
}

ShareRequest::ShareRequest(Peer& peer, std::uintptr_t from, std::size_t bytes, bool is_message) : peer_(peer) {
  CopyRequest& request = peer.header()->copy_request;
  if (!is_message || !peer.header()->owner_polls.load(std::memory_order_relaxed) || !request.reserve()) {
    post_hint(from, bytes);
    return;
  }
  request.kind = CopyRequest::share;
  request.is_message = 1;
  request.reader = own_process_id();
  request.from = from;
  request.bytes = bytes;
  request.post();
  is_posted_ = true;
}

ShareRequest::~ShareRequest() {
  if (!is_posted_) return;
  CopyRequest& request = peer_.header()->copy_request;
  const std::uintptr_t from = request.from;
  const std::size_t bytes = request.bytes;
  const bool was_seen = !request.withdraw();
  if (was_seen) {
    wait_until_finished(peer_, request);
    request.state.store(CopyRequest::none, std::memory_order_release);
  } else {
    post_hint(from, bytes);
  }
}

void ShareRequest::post_hint(std::uintptr_t from, std::size_t bytes) {
  ShareHint& hint = peer_.header()->share_hint;
  std::uint32_t none = CopyRequest::none;
  if (hint.state.load(std::memory_order_relaxed) != CopyRequest::none ||
      !hint.state.compare_exchange_strong(none, CopyRequest::being_written))
    return;
  hint.from = from;
  hint.bytes = bytes;
  hint.state.store(CopyRequest::posted, std::memory_order_release);
  peer_.header()->copy_request.has_share_hint.store(1, std::memory_order_release);
}

}  // namespace nearfield::heap

// For other preloaded libraries. A process that calls this function serves requests even if its MPI has no progress
// callbacks.
NEARFIELD_EXPORT void nearfield_heap_poll() {
  static constinit bool is_announced = false;
  if (!is_announced && nearfield::heap::own_header()) {
    nearfield::heap::announce_cooperation();
    is_announced = true;
  }
  nearfield::heap::poll_copy_requests();
}

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

std::uint32_t num_chunks_for(std::size_t bytes) {
  const std::size_t num_chunks = bytes / chunk_bytes;
  return static_cast<std::uint32_t>(num_chunks < 2 ? 2 : num_chunks > max_chunks ? max_chunks : num_chunks);
}

// Returns the offset in bytes of chunk i of a message. Chunks are whole cache lines; the last one includes the
// remainder.
std::size_t chunk_offset(std::uint32_t chunk, std::uint32_t num_chunks, std::size_t bytes) {
  return chunk == num_chunks ? bytes : bytes / num_chunks / 64 * 64 * chunk;
}

void copy_chunk(CopyFunction copy, char* to, const char* from, std::uint32_t chunk, std::uint32_t num_chunks,
                std::size_t bytes) {
  const std::size_t begin = chunk_offset(chunk, num_chunks, bytes);
  copy(to + begin, from + begin, chunk_offset(chunk + 1, num_chunks, bytes) - begin);
}

bool post_copy_request(CopyRequest& request, std::uintptr_t owner_address, char* to, std::size_t bytes,
                       CopyFunction copy) {
  if (!request.reserve()) return false;
  request.kind = CopyRequest::copy;
  request.uses_streaming = copy != copy_plain;
  request.reader_pid = own_process_id();
  request.num_chunks = num_chunks_for(bytes);
  request.from = owner_address;
  request.to = reinterpret_cast<std::uintptr_t>(to);
  request.bytes = bytes;
  request.num_claimed_chunks.store(0, std::memory_order_relaxed);
  request.post();
  return true;
}

// Called by the sender: copies chunks from the back of the message until sender and receiver have claimed all chunks.
void copy_from_back(CopyRequest& request, char* to) {
  const std::uint32_t num_chunks = request.num_chunks;
  const CopyFunction copy = request.uses_streaming ? streaming_copy() : copy_plain;
  for (std::uint32_t chunk = num_chunks; request.num_claimed_chunks.fetch_add(1) < num_chunks;) {
    --chunk;
    const std::size_t begin = chunk_offset(chunk, num_chunks, request.bytes);
    prefault_writable(to + begin, chunk_offset(chunk + 1, num_chunks, request.bytes) - begin);
    copy_chunk(copy, to, reinterpret_cast<const char*>(request.from), chunk, num_chunks, request.bytes);
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

Cooperation copy_cooperatively(Peer& peer, char* to, const char* from, std::uintptr_t owner_address, std::size_t bytes,
                               CopyFunction copy) {
  CopyRequest& request = peer.header()->copy_request;
  if (!post_copy_request(request, owner_address, to, bytes, copy)) return Cooperation::not_requested;
  const std::uint32_t num_chunks = request.num_chunks;
  std::uint32_t num_own_chunks = 0;
  while (request.num_claimed_chunks.fetch_add(1) < num_chunks)
    copy_chunk(copy, to, from, num_own_chunks++, num_chunks, bytes);
  if (!request.withdraw()) {
    if (!wait_until_finished(peer, request))
      for (std::uint32_t chunk = num_own_chunks; chunk < num_chunks; ++chunk)
        copy_chunk(copy, to, from, chunk, num_chunks, bytes);
    request.state.store(CopyRequest::none, std::memory_order_release);
  }
  peer.record_cooperation(num_own_chunks < num_chunks);
  return num_own_chunks < num_chunks ? Cooperation::cooperated : Cooperation::declined;
}

namespace {

// Copies chunks of the requested message to the reader's heap. Does nothing if the reader's pages are not all shared.
void serve_cooperative_copy(CopyRequest& request) {
  PeerGuard guard;
  Peer* reader = is_in_heap(request.to) ? find_peer(request.reader_pid) : nullptr;
  if (!reader) return;
  const CopyAnnouncement copying(*reader, true);
  if (reader->leading_shared_bytes(request.to, request.bytes) != request.bytes) return;
  std::size_t contiguous = 0;
  char* to = reader->is_open() ? reader->mapped_address(request.to - heap_begin, true, contiguous) : nullptr;
  if (!to || contiguous < request.bytes) return;
  reader->add_copied_bytes(request.bytes);
  copy_from_back(request, to);
}

}  // namespace

int poll_copy_requests() {
  HeapFileHeader* header = own_header();
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
    serve_cooperative_copy(request);
  else if (request.kind == CopyRequest::bounce)
    fill_bounce_buffer(request);
  else if (is_in_heap(request.from))
    share_message(reinterpret_cast<const char*>(request.from), request.bytes, request.is_mpi_message != 0);
  request.state.store(CopyRequest::finished, std::memory_order_release);
  return 1;
}

ShareRequest::ShareRequest(Peer& peer, std::uintptr_t from, std::size_t bytes, bool is_mpi_message) : peer_(peer) {
  CopyRequest& request = peer.header()->copy_request;
  if (!is_mpi_message || !peer.header()->is_owner_polling.load(std::memory_order_relaxed) || !request.reserve()) {
    post_hint(from, bytes);
    return;
  }
  request.kind = CopyRequest::share;
  request.is_mpi_message = 1;
  request.reader_pid = own_process_id();
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
  const bool was_taken = !request.withdraw();
  if (was_taken) {
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

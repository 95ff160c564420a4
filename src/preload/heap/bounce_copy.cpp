#include "preload/heap/bounce_copy.hpp"

#include <sched.h>
#include <time.h>

#include <cstring>

#include "preload/heap/cooperative_copy.hpp"
#include "preload/heap/copy_requests.hpp"
#include "preload/heap/peers.hpp"
#include "preload/heap/sharing.hpp"

namespace nearfield::heap {
namespace {

constexpr std::size_t chunk_bytes = std::size_t{16} << 10;
constexpr std::int64_t max_wait_ns = 20'000;  // an owner that waits polls every few hundred nanoseconds
constexpr int spins_per_check = 100;

std::size_t min_of(std::size_t a, std::size_t b) { return a < b ? a : b; }

bool post_bounce_request(CopyRequest& request, std::uintptr_t from, std::size_t bytes) {
  if (!request.reserve()) return false;
  request.kind = CopyRequest::bounce;
  request.reader_pid = own_process_id();
  request.from = from;
  request.bytes = bytes;
  request.num_claimed_chunks.store(0, std::memory_order_relaxed);
  request.post();
  return true;
}

// Returns whether the owner has taken the request in time; if not, the request is withdrawn.
bool wait_until_taken(CopyRequest& request) {
  const std::int64_t deadline_ns = now_ns(CLOCK_MONOTONIC) + max_wait_ns;
  for (int spins = 1; request.state.load(std::memory_order_acquire) == CopyRequest::posted; ++spins)
    if (spins % spins_per_check == 0 && now_ns(CLOCK_MONOTONIC) > deadline_ns) return !request.withdraw();
  return true;
}

// Waits until the owner has filled more than `num_chunks` chunks. Returns false if the owner finishes the request or
// dies before that.
bool wait_for_chunk(const Peer& peer, const CopyRequest& request, std::uint32_t num_chunks) {
  for (int spins = 1; request.num_claimed_chunks.load(std::memory_order_acquire) <= num_chunks; ++spins) {
    if (spins % spins_per_check) continue;
    if (peer.is_gone() || request.state.load(std::memory_order_acquire) == CopyRequest::finished)
      return request.num_claimed_chunks.load(std::memory_order_acquire) > num_chunks;
    sched_yield();
  }
  return true;
}

// Copies the chunks that the owner fills. Returns the number of bytes copied, fewer than `bytes` if the owner has died.
std::size_t drain_bounce_buffer(const Peer& peer, CopyRequest& request, char* to, std::size_t bytes) {
  std::size_t copied_bytes = 0;
  for (std::uint32_t chunk = 0; copied_bytes < bytes && wait_for_chunk(peer, request, chunk); ++chunk) {
    const std::size_t length = min_of(bytes - copied_bytes, chunk_bytes);
    std::memcpy(to + copied_bytes, peer.bounce_buffer() + request.to + copied_bytes, length);
    copied_bytes += length;
  }
  return copied_bytes;
}

}  // namespace

std::size_t read_through_bounce_buffer(Peer& peer, char* to, std::uintptr_t from, std::size_t bytes) {
  std::size_t copied_bytes = 0;
  if (!peer.bounce_buffer() || !peer.may_cooperate()) return copied_bytes;
  CopyRequest& request = peer.header()->copy_request;
  while (copied_bytes < bytes) {
    const std::size_t length = min_of(bytes - copied_bytes, bounce_bytes);
    if (!post_bounce_request(request, from + copied_bytes, length)) return copied_bytes;
    const bool is_taken = wait_until_taken(request);
    peer.record_cooperation(is_taken);
    if (!is_taken) return copied_bytes;
    const std::size_t drained = drain_bounce_buffer(peer, request, to + copied_bytes, length);
    copied_bytes += drained;
    count_bounce_copy(drained);
    // The request is free only when the owner has finished, because the owner still writes to it after the last chunk.
    if (!wait_until_finished(peer, request)) return copied_bytes;
    request.state.store(CopyRequest::none, std::memory_order_release);
    if (drained < length) return copied_bytes;
  }
  return copied_bytes;
}

void fill_bounce_buffer(CopyRequest& request) {
  // Successive requests use successive places in the buffer, because cache lines that the last reader still holds are
  // slow to write again.
  static constinit std::size_t next_offset = 0;
  if (!own_bounce_buffer() || request.bytes > bounce_bytes) return;
  if (request.bytes > bounce_bytes - next_offset) next_offset = 0;
  request.to = next_offset;
  char* const to = own_bounce_buffer() + next_offset;
  next_offset += (request.bytes + page_bytes() - 1) / page_bytes() * page_bytes();
  const auto* from = reinterpret_cast<const char*>(request.from);
  std::uint32_t num_chunks = 0;
  for (std::size_t copied_bytes = 0; copied_bytes < request.bytes; copied_bytes += chunk_bytes) {
    std::memcpy(to + copied_bytes, from + copied_bytes, min_of(request.bytes - copied_bytes, chunk_bytes));
    request.num_claimed_chunks.store(++num_chunks, std::memory_order_release);
  }
}

}  // namespace nearfield::heap

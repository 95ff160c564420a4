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
constexpr std::int64_t patience_ns = 20'000;  // an owner that waits polls every few hundred nanoseconds
constexpr int spins_per_check = 100;

std::size_t min_of(std::size_t a, std::size_t b) { return a < b ? a : b; }

bool post_bounce_request(CopyRequest& request, std::uintptr_t from, std::size_t bytes) {
  if (!request.reserve()) return false;
  request.kind = CopyRequest::bounce;
  request.reader = own_process_id();
  request.from = from;
  request.bytes = bytes;
  request.claimed.store(0, std::memory_order_relaxed);
  request.post();
  return true;
}

// Returns whether the owner has taken the request in time; if not, the request is withdrawn.
bool wait_until_taken(CopyRequest& request) {
  const std::int64_t until = now_ns(CLOCK_MONOTONIC) + patience_ns;
  for (int spins = 1; request.state.load(std::memory_order_acquire) == CopyRequest::posted; ++spins)
    if (spins % spins_per_check == 0 && now_ns(CLOCK_MONOTONIC) > until) return !request.withdraw();
  return true;
}

// Waits until the owner has filled more than `chunks` chunks. Returns false if it finishes the request, or dies,
// before.
bool wait_for_chunk(const Peer& peer, const CopyRequest& request, std::uint32_t chunks) {
  for (int spins = 1; request.claimed.load(std::memory_order_acquire) <= chunks; ++spins) {
    if (spins % spins_per_check) continue;
    if (peer.is_gone() || request.state.load(std::memory_order_acquire) == CopyRequest::finished)
      return request.claimed.load(std::memory_order_acquire) > chunks;
    sched_yield();
  }
  return true;
}

// Copies the chunks that the owner fills. Returns the number of bytes copied, fewer than `bytes` if the owner has died.
std::size_t drain_bounce_buffer(const Peer& peer, CopyRequest& request, char* to, std::size_t bytes) {
  std::size_t done = 0;
  for (std::uint32_t chunk = 0; done < bytes && wait_for_chunk(peer, request, chunk); ++chunk) {
    const std::size_t length = min_of(bytes - done, chunk_bytes);
    std::memcpy(to + done, peer.bounce() + request.to + done, length);
    done += length;
  }
  return done;
}

}  // namespace

std::size_t read_by_bounce(Peer& peer, char* to, std::uintptr_t from, std::size_t bytes) {
  std::size_t done = 0;
  if (!peer.bounce() || !peer.may_cooperate()) return done;
  CopyRequest& request = peer.header()->copy_request;
  while (done < bytes) {
    const std::size_t length = min_of(bytes - done, bounce_bytes);
    if (!post_bounce_request(request, from + done, length)) return done;
    const bool is_taken = wait_until_taken(request);
    peer.record_cooperation(is_taken);
    if (!is_taken) return done;
    const std::size_t drained = drain_bounce_buffer(peer, request, to + done, length);
    done += drained;
    count_bounce(drained);
    // The request is free only when the owner has finished, because the owner still writes to it after the last chunk.
    if (!wait_until_finished(peer, request)) return done;
    request.state.store(CopyRequest::none, std::memory_order_release);
    if (drained < length) return done;
  }
  return done;
}

void fill_bounce(CopyRequest& request) {
  // Successive requests use successive places in the buffer, because cache lines that the last reader still holds are
  // slow to write again.
  static constinit std::size_t next = 0;
  if (!own_bounce_buffer() || request.bytes > bounce_bytes) return;
  if (request.bytes > bounce_bytes - next) next = 0;
  request.to = next;
  char* const to = own_bounce_buffer() + next;
  next += (request.bytes + page_bytes() - 1) / page_bytes() * page_bytes();
  const auto* from = reinterpret_cast<const char*>(request.from);
  std::uint32_t chunks = 0;
  for (std::size_t done = 0; done < request.bytes; done += chunk_bytes) {
    std::memcpy(to + done, from + done, min_of(request.bytes - done, chunk_bytes));
    request.claimed.store(++chunks, std::memory_order_release);
  }
}

}  // namespace nearfield::heap

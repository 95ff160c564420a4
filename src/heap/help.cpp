#include "heap/help.hpp"

#include <sched.h>

#include "heap/heap.hpp"
#include "heap/peers.hpp"
#include "heap/region.hpp"
#include "heap/sharing.hpp"

namespace nearfield::heap {
namespace {

constexpr std::size_t chunk_bytes = std::size_t{8} << 10, most_chunks = 32;
constexpr int spins_before_yield = 2000;

std::uint32_t chunks_of(std::size_t bytes) {
  const std::size_t chunks = bytes / chunk_bytes;
  return static_cast<std::uint32_t>(chunks < 2 ? 2 : chunks > most_chunks ? most_chunks : chunks);
}

// Returns where chunk i of a message begins; chunks are whole lines, and the last one has the rest.
std::size_t begin_of(std::uint32_t i, std::uint32_t chunks, std::size_t bytes) {
  return i == chunks ? bytes : bytes / chunks / 64 * 64 * i;
}

void copy_chunk(Copy copy, char* to, const char* from, std::uint32_t i, std::uint32_t chunks, std::size_t bytes) {
  const std::size_t begin = begin_of(i, chunks, bytes);
  copy(to + begin, from + begin, begin_of(i + 1, chunks, bytes) - begin);
}

bool post(Order& order, std::uintptr_t there, char* to, std::size_t bytes, Copy copy) {
  std::uint32_t none = Order::none;
  if (!order.state.compare_exchange_strong(none, Order::being_written)) return false;
  order.kind = Order::copy;
  order.streaming = copy != copy_plain;
  order.reader = own_process();
  order.chunks = chunks_of(bytes);
  order.from = there;
  order.to = reinterpret_cast<std::uintptr_t>(to);
  order.bytes = bytes;
  order.claimed.store(0, std::memory_order_relaxed);
  order.state.store(Order::posted, std::memory_order_release);
  return true;
}

// Waits until the sender has copied the chunks that it took. Returns false if it died.
bool wait_for(const Peer& peer, const Order& order) {
  for (int spins = 0; order.state.load(std::memory_order_acquire) != Order::finished; ++spins) {
    if (spins < spins_before_yield) continue;
    if (peer.is_gone()) return false;
    sched_yield();
  }
  return true;
}

// Copies chunks from the back of the message as long as the receiver leaves any.
void help(Order& order, char* to) {
  const std::uint32_t chunks = order.chunks;
  const Copy copy = order.streaming ? streaming_copy() : copy_plain;
  for (std::uint32_t i = chunks; order.claimed.fetch_add(1) < chunks;) {
    --i;
    const std::size_t begin = begin_of(i, chunks, order.bytes);
    touch_to_write(to + begin, begin_of(i + 1, chunks, order.bytes) - begin);
    copy_chunk(copy, to, reinterpret_cast<const char*>(order.from), i, chunks, order.bytes);
  }
}

}  // namespace

Helped copy_with_help(Peer& peer, char* to, const char* from, std::uintptr_t there, std::size_t bytes, Copy copy) {
  Order& order = peer.header()->order;
  if (!post(order, there, to, bytes, copy)) return Helped::not_asked;
  const std::uint32_t chunks = order.chunks;
  std::uint32_t own = 0;
  while (order.claimed.fetch_add(1) < chunks) copy_chunk(copy, to, from, own++, chunks, bytes);
  std::uint32_t posted = Order::posted;
  if (!order.state.compare_exchange_strong(posted, Order::none)) {
    if (!wait_for(peer, order))
      for (std::uint32_t i = own; i < chunks; ++i) copy_chunk(copy, to, from, i, chunks, bytes);
    order.state.store(Order::none, std::memory_order_release);
  }
  peer.was_helped(own < chunks);
  return own < chunks ? Helped::helped : Helped::not_helped;
}

namespace {

// Copies chunks of the message to the reader, whose memory must be shared.
void carry_out_copy(Order& order) {
  Visit visit;
  Peer* reader = in_heap(order.to) ? find_peer(order.reader) : nullptr;
  if (!reader) return;
  const Copying copying(*reader, true);
  if (reader->shared_bytes(order.to, order.bytes) != order.bytes) return;
  std::size_t contiguous = 0;
  char* to = reader->is_open() ? reader->at(order.to - heap_begin, true, contiguous) : nullptr;
  if (!to || contiguous < order.bytes) return;
  reader->note_copied(order.bytes);
  help(order, to);
}

}  // namespace

int look_for_orders() {
  Header* header = own_header();
  if (!header) return 0;
  Order& order = header->order;
  if (order.has_wish.load(std::memory_order_relaxed)) {
    order.has_wish.store(0);  // first, since a peer sets it after its wish
    answer_wish();
  }
  if (order.state.load(std::memory_order_relaxed) != Order::posted) return 0;
  std::uint32_t posted = Order::posted;
  if (!order.state.compare_exchange_strong(posted, Order::taken)) return 0;
  if (order.kind == Order::copy)
    carry_out_copy(order);
  else if (in_heap(order.from))
    share_message(reinterpret_cast<const char*>(order.from), order.bytes, order.is_message != 0);
  order.state.store(Order::finished, std::memory_order_release);
  return 1;
}

ShareRequest::ShareRequest(Peer& peer, std::uintptr_t from, std::size_t bytes, bool is_message) : peer_(peer) {
  Order& order = peer.header()->order;
  std::uint32_t none = Order::none;
  if (!is_message || !peer.header()->helps.load(std::memory_order_relaxed) ||
      !order.state.compare_exchange_strong(none, Order::being_written)) {
    wish(from, bytes);
    return;
  }
  order.kind = Order::share;
  order.is_message = 1;
  order.reader = own_process();
  order.from = from;
  order.bytes = bytes;
  order.state.store(Order::posted, std::memory_order_release);
  is_posted_ = true;
}

ShareRequest::~ShareRequest() {
  if (!is_posted_) return;
  Order& order = peer_.header()->order;
  const std::uintptr_t from = order.from;
  const std::size_t bytes = order.bytes;
  std::uint32_t posted = Order::posted;
  const bool was_seen = !order.state.compare_exchange_strong(posted, Order::none);
  if (was_seen) {
    wait_for(peer_, order);
    order.state.store(Order::none, std::memory_order_release);
  } else {
    wish(from, bytes);
  }
}

void ShareRequest::wish(std::uintptr_t from, std::size_t bytes) {
  Wish& wish = peer_.header()->wish;
  std::uint32_t none = Order::none;
  if (wish.state.load(std::memory_order_relaxed) != Order::none ||
      !wish.state.compare_exchange_strong(none, Order::being_written))
    return;
  wish.from = from;
  wish.bytes = bytes;
  wish.state.store(Order::posted, std::memory_order_release);
  peer_.header()->order.has_wish.store(1, std::memory_order_release);
}

}  // namespace nearfield::heap

#include "preload/heap/pages.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/linux.h"
#include "preload/heap/heap.hpp"
#include "preload/heap/next_calls.hpp"
#include "preload/heap/region.hpp"
#include "preload/heap/sharing.hpp"

namespace nearfield::heap {
namespace {

constexpr std::size_t max_pieces = heap_address_bytes / huge_page_bytes;
constexpr std::int64_t inverse_time_share = 50;  // collapsing takes at most 1/50 of the time
constexpr std::int64_t pause_between_rounds_ns = 1'000'000'000;
constexpr int pieces_per_message = 8;  // how many pieces are checked after a message
// The clock is read after this many bytes of messages, since a short message does not justify reading it.
constexpr std::size_t check_period_bytes = std::size_t{1} << 20;

struct CollapseState {
  std::atomic<bool> is_enabled{false}, is_busy{false};
  bool is_limited_to_advised = false;
  std::atomic<std::size_t> message_bytes_since_check{0};  // bytes of messages since the clock was last read
  std::int64_t next_attempt_ns = 0;
  std::size_t next_piece = 0;  // next piece to check in the current round through the heap
  std::atomic<unsigned> num_collapsed{0};
};

constinit CollapseState collapse_state;

struct HugePagePiece {
  std::atomic<bool> is_huge{false};
  std::atomic<bool> is_advised{false};  // the program has requested huge pages
};
constinit HugePagePiece pieces[max_pieces] = {};

// Returns the address of the next piece of this round that can become a huge page; nullptr if none of the next eight
// can.
char* next_collapsible_piece(std::int64_t now) {
  lock_heap();
  const std::size_t count = (std::size_t{num_ever_allocated_pages()} << page_shift()) / huge_page_bytes;
  unlock_heap();
  for (int num_checked = 0; num_checked < pieces_per_message; ++num_checked, ++collapse_state.next_piece) {
    if (collapse_state.next_piece >= count || collapse_state.next_piece >= max_pieces) {
      collapse_state.next_piece = 0;
      collapse_state.next_attempt_ns = now + pause_between_rounds_ns;
      return nullptr;
    }
    const HugePagePiece& piece = pieces[collapse_state.next_piece];
    if (piece.is_huge.load(std::memory_order_relaxed) ||
        (collapse_state.is_limited_to_advised && !piece.is_advised.load()))
      continue;
    auto* memory = reinterpret_cast<char*>(heap_begin + collapse_state.next_piece * huge_page_bytes);
    if (is_shared(memory, huge_page_bytes)) return memory;
  }
  return nullptr;
}

// Returns whether the first 127 bytes of a file contain the word.
bool file_contains_word(const char* path, const char* word) {
  char text[128];
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  text[length > 0 ? length : 0] = '\0';
  return std::strstr(text, word) != nullptr;
}

// Sets whether the program advises huge pages, for the pieces that lie entirely in [from, from + bytes).
void set_pieces_advised(const void* from, std::size_t bytes, bool is_advised) {
  if (!is_in_heap(from)) return;
  const std::size_t offset = reinterpret_cast<std::uintptr_t>(from) - heap_begin;
  const std::size_t end = (offset + bytes) / huge_page_bytes;
  for (std::size_t piece = (offset + huge_page_bytes - 1) / huge_page_bytes; piece < end && piece < max_pieces; ++piece)
    pieces[piece].is_advised.store(is_advised, std::memory_order_relaxed);
}

}  // namespace

void start_huge_pages(bool is_enabled) {
  const char* enabled = "/sys/kernel/mm/transparent_hugepage/enabled";
  collapse_state.is_limited_to_advised = file_contains_word(enabled, "[madvise]");
  collapse_state.is_enabled =
      is_enabled && (collapse_state.is_limited_to_advised || file_contains_word(enabled, "[always]"));
}

void make_huge_pages(std::size_t bytes) {
  if (!collapse_state.is_enabled.load(std::memory_order_relaxed)) return;
  const std::size_t message_bytes = collapse_state.message_bytes_since_check.load(std::memory_order_relaxed) + bytes;
  collapse_state.message_bytes_since_check.store(message_bytes < check_period_bytes ? message_bytes : 0,
                                                 std::memory_order_relaxed);
  if (message_bytes < check_period_bytes) return;
  const std::int64_t now = now_ns(CLOCK_MONOTONIC);
  if (now < collapse_state.next_attempt_ns) return;
  if (collapse_state.is_busy.exchange(true, std::memory_order_acquire)) return;
  if (char* piece = next_collapsible_piece(now)) {
    const int error = errno;
    if (next_madvise(piece, huge_page_bytes, MADV_COLLAPSE) == 0) {
      pieces[collapse_state.next_piece].is_huge.store(true, std::memory_order_relaxed);
      ++collapse_state.num_collapsed;
    } else if (errno == EINVAL) {
      collapse_state.is_enabled = false;  // the kernel does not support MADV_COLLAPSE
    } else {
      ++collapse_state.next_piece;  // retried in the next round
    }
    errno = error;
  }
  const std::int64_t end = now_ns(CLOCK_MONOTONIC);
  collapse_state.next_attempt_ns = std::max(collapse_state.next_attempt_ns, end + (end - now) * inverse_time_share);
  collapse_state.is_busy.store(false, std::memory_order_release);
}

void forget_huge_pages(const char* from, std::size_t bytes) {
  const std::size_t first = (reinterpret_cast<std::uintptr_t>(from) - heap_begin) / huge_page_bytes;
  for (std::size_t piece = first; piece <= first + bytes / huge_page_bytes && piece < max_pieces; ++piece)
    pieces[piece].is_huge.store(false, std::memory_order_relaxed);
}

void record_huge_page_advice(const void* from, std::size_t bytes) { set_pieces_advised(from, bytes, true); }
void forget_huge_page_advice(const void* from, std::size_t bytes) { set_pieces_advised(from, bytes, false); }

unsigned num_huge_pages_made() { return collapse_state.num_collapsed.load(); }

}  // namespace nearfield::heap

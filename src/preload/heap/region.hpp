// The memory of this process's heap, and the file through which other ranks on the node access parts of that memory.
//
// The heap has the same addresses in every process, from heap_begin on. Its pages are private memory, as in any other
// heap: untouched pages cost nothing, a fork copies pages on write, and the kernel's rules for huge pages apply.
// Pages that messages pass through move into the file, an unnamed memfd, which is mapped shared at the same addresses
// (sharing.hpp). An address minus heap_begin is the offset in the file, so a peer can compute the offset from the
// address.
//
//   offset in the file                 content
//   0                                  the header (one page), mapped at heap_begin
//   one page up to heap_address_bytes  pages of the heap, where they are shared
//   bits_offset                        a bit for each page of the heap: 1 if the page is shared
//   slots_offset                       a cache line (PeerSlot) for each peer that copies from or to this heap
//   bounce_offset                      a buffer for copies of memory that is not shared (bounce_copy.hpp)
//
// Life cycle: HeapRegion::open(), then HeapRegion::grow() as allocations require. The file exists until the last
// process that maps it ends, even by a signal. A forked child has the same private memory, but no file.
//
// Threads: every change of a HeapRegion requires the heap's lock. Peers read the header and the bits at any time.
#pragma once

#include <pthread.h>
#include <time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/heap/page_bits.hpp"
#include "preload/heap/spans.hpp"

namespace nearfield::heap {

inline constexpr std::uintptr_t heap_begin = std::uintptr_t{0x20} << 40;
inline constexpr std::size_t heap_address_bytes = std::size_t{1} << 40;  // bytes of addresses
inline constexpr std::size_t bits_offset = heap_address_bytes;
inline constexpr std::size_t slots_offset = bits_offset + PageBits::bytes;
inline constexpr std::uint32_t max_peer_slots = 4096;

// The cache line of one peer in the file: how many threads of the peer are copying from this heap (readers) and to it
// (writers), and how many bytes the peer has copied from and to shared pages.
struct alignas(64) PeerSlot {
  std::atomic<std::uint32_t> num_readers, num_writers;
  std::atomic<std::uint64_t> copied_bytes;
};
inline constexpr std::size_t slots_bytes = sizeof(PeerSlot) * max_peer_slots,
                             bounce_offset = slots_offset + slots_bytes;
inline constexpr std::size_t bounce_bytes = std::size_t{512} << 10, file_bytes = bounce_offset + bounce_bytes;

inline bool is_in_heap(std::uintptr_t address) { return address - heap_begin < heap_address_bytes; }
inline bool is_in_heap(const void* address) { return is_in_heap(reinterpret_cast<std::uintptr_t>(address)); }

std::size_t page_bytes();
int page_shift();

inline Spans::Page page_of(std::uintptr_t address) {
  return static_cast<Spans::Page>((address - heap_begin) >> page_shift());
}
inline Spans::Page page_of(const void* address) { return page_of(reinterpret_cast<std::uintptr_t>(address)); }
inline char* address_of(Spans::Page page) {
  return reinterpret_cast<char*>(heap_begin + (std::size_t{page} << page_shift()));
}

inline std::int64_t now_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

// A receiver's request to the owner of a heap, the sender of a message: to copy a part of the message
// (cooperative_copy.hpp), to share its pages (sharing.hpp), or to copy it into the bounce buffer (bounce_copy.hpp). One
// receiver at a time and the owner write to the request. State: none -> being_written -> posted, by the receiver;
// posted -> taken -> finished, by the sender; posted or finished -> none, by the receiver, which owns the request until
// then.
struct CopyRequest {
  enum State : std::uint32_t { none, being_written, posted, taken, finished };
  enum Kind : std::uint32_t { copy, share, bounce };
  alignas(64) std::atomic<std::uint32_t> state;
  std::atomic<std::uint32_t> has_share_hint;  // 1: a ShareHint is posted; in the cache line that the owner polls
  std::uint32_t kind;
  std::uint32_t uses_streaming;  // 1: the sender copies by streaming stores
  std::int32_t reader_pid;       // the receiver's process ID
  std::uint32_t num_chunks;      // of a cooperative copy
  // 1: an MPI library copies, so the program does not write to the memory during the copy
  std::uint32_t is_mpi_message;
  std::uint64_t from, to;  // addresses in the owner and in the receiver; bounce: `to` is an offset in the buffer
  std::uint64_t bytes;
  // Number of chunks that sender and receiver have claimed; bounce: number of chunks that the sender has filled.
  alignas(64) std::atomic<std::uint32_t> num_claimed_chunks;

  // Called by a receiver. Returns whether the receiver owns the request from now on; if so, the receiver fills in the
  // request and calls post().
  bool reserve() {
    std::uint32_t expected = none;
    return state.compare_exchange_strong(expected, being_written);
  }
  void post() { state.store(posted, std::memory_order_release); }
  // Called by the receiver: cancels the posted request. Returns false if the sender has taken the request already.
  bool withdraw() {
    std::uint32_t expected = posted;
    return state.compare_exchange_strong(expected, none);
  }
};

// A receiver's hint to the owner of a heap to share this memory. The owner polls for the hint occasionally. State:
// none -> being_written -> posted, by the receiver; posted -> none, by the owner.
struct ShareHint {
  alignas(64) std::atomic<std::uint32_t> state;
  std::uint64_t from, bytes;
};

// The first page of the file, which peers read. `alive_mutex` is a robust mutex that the owner holds for its lifetime:
// the kernel marks the mutex when the owner dies, even by SIGKILL, so that a peer notices when a process ID is reused.
// `tick` is a cache line that the owner writes repeatedly, so that peers can measure the core-to-core latency of
// reading it.
struct HeapFileHeader {
  static constexpr char expected_magic[16] = "nearfield heap3";
  char magic[16];
  std::int32_t owner_descriptor;  // number of the file's descriptor in the owner
  std::uint64_t device, inode;    // identify the file
  alignas(64) pthread_mutex_t alive_mutex;
  std::atomic<std::uint32_t> num_taken_slots;      // number of slots that peers have taken
  std::atomic<std::uint32_t> are_pages_moving;     // 1: pages are moving, so no peer may begin to copy
  std::atomic<std::uint32_t> num_moved_stretches;  // how many stretches of pages have moved into the file
  alignas(64) std::atomic<std::uint64_t> tick;
  std::atomic<std::uint32_t> is_owner_polling;  // 1: the owner polls for requests
  CopyRequest copy_request;
  ShareHint share_hint;

  // Returns whether `magic` is right.
  bool has_expected_magic() const;
  // Returns whether the kernel has marked `alive_mutex`, or its thread has unlocked it.
  bool has_owner_died() const;
};

class HeapRegion {
 public:
  // Maps the first page of the heap and the start of the table of its pages. Returns nullptr, or the reason for the
  // failure (text with static lifetime).
  const char* open();
  // Maps at least `pages` more pages. Returns their number; 0 if the addresses are exhausted or the kernel refuses.
  Spans::Page grow(Spans::Page pages);
  bool is_open() const { return num_usable_pages_ != 0; }
  Spans::Page num_usable_pages() const { return num_usable_pages_; }  // includes the header's page
  Spans::SpanTableEntry* span_table() const { return span_table_; }

 private:
  bool extend_table(Spans::Page pages);

  Spans::Page num_usable_pages_ = 0;
  Spans::SpanTableEntry* span_table_ = nullptr;
  std::size_t table_bytes_ = 0;
};

// The file of this process's heap.
class HeapFile {
 public:
  // Creates and maps the file. Returns nullptr, or the reason for the failure (text with static lifetime).
  const char* open();
  // Called in a forked child, where the parent's file is not mapped.
  void forget_mapping();
  bool is_open() const { return header_ != nullptr; }
  // Returns whether the descriptor still refers to the heap's file: some programs close all descriptors that they have
  // not opened.
  bool has_own_descriptor() const;
  int descriptor() const { return descriptor_; }
  HeapFileHeader* header() const { return header_; }
  PageBits& shared_page_bits() { return shared_page_bits_; }
  PeerSlot* slots() const { return slots_; }
  // nullptr unless this process serves copies (copy_service.hpp)
  char* bounce_buffer() const { return bounce_buffer_; }

 private:
  int descriptor_ = -1;
  std::uint64_t device_ = 0, inode_ = 0;
  HeapFileHeader* header_ = nullptr;
  PageBits shared_page_bits_;
  PeerSlot* slots_ = nullptr;
  char* bounce_buffer_ = nullptr;
};

}  // namespace nearfield::heap

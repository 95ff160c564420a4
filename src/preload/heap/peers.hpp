// The shared heaps of other processes on this node, as far as this process may access them.
//
// A peer's file is mapped in windows of 64 MiB, each when a message first needs it, and read-only until this process
// writes through it. The kernel grants access to processes that may call process_vm_readv on the peer: the peer's
// header is read by process_vm_readv, and its file is obtained by pidfd_getfd, which requires the same permission.
//
// Page tables: a window costs 8 bytes per page accessed through it (1/512 of the bytes; negligible with huge pages). At
// most `max_mapped_windows` are mapped; beyond that the least recently used one is unmapped.
//
// Thread-safe; each access requires a PeerGuard.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/heap/region.hpp"

namespace nearfield::heap {

inline constexpr std::size_t window_bytes = std::size_t{64} << 20;
inline constexpr int max_mapped_windows = 512;

// The core-to-core latency of a cache line from the peer, which distance.hpp measures, and the state of the
// measurement.
struct PeerLatency {
  std::atomic<std::uint32_t> line_latency_ns{0};  // 0: not measured yet
  std::atomic<std::uint64_t> next_sampling_ns{0}, last_tick{0};
  std::atomic<std::uint32_t> num_messages{0}, remaining_samples{0};
  std::uint32_t sample_ns[8] = {};
};

class Peer {
 public:
  // `may_open_later`: the peer may not have initialized MPI yet.
  Peer(pid_t pid, bool may_open_later) : pid_(pid), may_open_later_(may_open_later) {}

  pid_t pid() const { return pid_; }
  bool is_open() const { return header_ && !is_gone(); }
  bool is_gone() const {
    return is_replaced_.load(std::memory_order_relaxed) || (header_ && header_->has_owner_died());
  }
  HeapFileHeader* header() const { return header_; }
  // nullptr if the kernel lets this process read the peer's memory
  const char* bounce_buffer() const { return bounce_buffer_; }
  // Returns whether the peer must be looked up again: it had no heap when it was looked up, but `has_heap` now.
  bool is_replaceable(bool has_heap) const { return has_heap && may_open_later_ && !header_; }
  // Returns how many of the bytes in [from, from + bytes), addresses of the peer, precede the first private page.
  // Requires a CopyAnnouncement.
  std::size_t leading_shared_bytes(std::uintptr_t from, std::size_t bytes);
  // Returns how many of the bytes in [from, from + bytes) precede the first shared page.
  std::size_t leading_private_bytes(std::uintptr_t from, std::size_t bytes);

  // Returns the address in this process at which an offset of the peer's file is mapped, and in `length` how many bytes
  // from there on lie in the same window. Maps the window if necessary; returns nullptr if that fails. Requires a
  // PeerGuard.
  char* mapped_address(std::size_t offset, bool for_writing, std::size_t& length);

  // Returns whether to post a request for a cooperative copy. Returns true if the peer polls for requests and has
  // served at least one of the last four; if it has served none of these, only for one message in sixteen.
  bool may_cooperate();
  // Records whether the peer has served a request for a cooperative copy or a bounce copy.
  void record_cooperation(bool has_served) {
    num_unanswered_requests_.store(has_served ? 0 : num_unanswered_requests_.load() + 1, std::memory_order_relaxed);
  }
  // Returns whether to request that the peer shares a message's pages. After 64 requests in a row that moved no page,
  // returns false for the next 1024 messages.
  bool may_request_share();
  // Records a request to share pages, and whether the peer has moved any pages since the last one.
  void record_share_request();

  // Adds bytes that this process copies from or to the peer's shared pages to the count in its slot.
  void add_copied_bytes(std::size_t bytes) const { slot_->copied_bytes.fetch_add(bytes, std::memory_order_relaxed); }

  PeerLatency latency;

 private:
  friend class PeerRegistry;
  struct FileWindow {
    std::atomic<char*> begin{nullptr};
    std::atomic<bool> is_writable{false};
    std::atomic<std::uint32_t> last_use_time{0};
  };
  bool map_heap();
  int fetch_file() const;
  bool map_window(FileWindow& window, std::size_t offset, bool for_writing);

  friend class CopyAnnouncement;

  pid_t pid_;
  bool may_open_later_;
  std::atomic<bool> is_replaced_{false};
  int owner_descriptor_ = -1;  // the file's descriptor in the peer
  std::uint64_t device_ = 0, inode_ = 0;
  HeapFileHeader* header_ = nullptr;
  PageBits shared_page_bits_;
  PeerSlot* slot_ = nullptr;  // this process's slot in the peer's file
  const char* bounce_buffer_ = nullptr;
  FileWindow* windows_ = nullptr;
  std::atomic<std::uint32_t> num_unanswered_requests_{0}, num_skipped_requests_{0};
  std::atomic<std::uint32_t> last_seen_moves_{0}, num_unanswered_share_requests_{0},
      messages_before_next_share_request_{0};
};

// While a PeerGuard exists, no window is unmapped.
class PeerGuard {
 public:
  PeerGuard();
  ~PeerGuard();
  PeerGuard(const PeerGuard&) = delete;
  PeerGuard& operator=(const PeerGuard&) = delete;
};

// Announces a copy from or to a peer's heap in this process's slot. While a CopyAnnouncement exists, the peer does not
// free shared pages whose content a message may need and, if this process writes, moves no page. The constructor waits
// while the peer moves pages. Every copy from or to a peer's heap requires a CopyAnnouncement, even if the kernel makes
// the copy in the end.
class CopyAnnouncement {
 public:
  CopyAnnouncement(const Peer& peer, bool is_write);
  ~CopyAnnouncement() { num_copying_->fetch_sub(1, std::memory_order_release); }
  CopyAnnouncement(const CopyAnnouncement&) = delete;
  CopyAnnouncement& operator=(const CopyAnnouncement&) = delete;

 private:
  std::atomic<std::uint32_t>* num_copying_;
};

// Returns the peer with this process ID; nullptr if it has no heap that this process can map. `has_heap`: a message
// lies at addresses of the peer's heap, so the peer has opened one; a peer that had no heap before is then looked up
// again. Requires a PeerGuard.
Peer* find_peer(pid_t pid, bool has_heap = true);

// Reads some of the `bytes` bytes of a peer's memory that this process is about to write: on a read fault Linux maps 16
// existing pages at once, on a write fault only one.
void prefault_writable(const char* to, std::size_t bytes);

// Unmaps all windows, unless a thread holds a PeerGuard. A window is mapped again when a message needs it.
void unmap_windows();

// Called in a forked child: empties the table of peers.
void reset_peers();

// Returns this process's ID without a system call.
pid_t own_process_id();

struct PeerFacts {
  int num_peers, num_windows;
  unsigned min_latency_ns, max_latency_ns;  // smallest and largest measured latency; 0: none measured
};
PeerFacts peer_facts();

}  // namespace nearfield::heap

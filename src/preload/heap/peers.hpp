// The shared heaps of other processes on this node, as far as this process may access them.
//
// A peer's file is mapped in windows of 64 MiB, when a message first needs them, read-only until something is written
// through them. The kernel grants access to processes that may call process_vm_readv on the peer: its header is read
// that way, and its file is obtained by pidfd_getfd, which requires the same permission.
//
// Page tables: a window costs 8 bytes per page accessed through it (1/512 of the bytes; negligible with huge pages). At
// most `max_windows` are mapped; beyond that the least recently used one is unmapped.
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
inline constexpr int max_windows = 512;

// The latency of a line from the peer's core to this one, which distance.hpp keeps up to date.
struct PeerLatency {
  std::atomic<std::uint32_t> line_ns{0};  // 0: not measured yet
  std::atomic<std::uint64_t> next_sampling_ns{0}, last_tick{0};
  std::atomic<std::uint32_t> messages{0}, samples_left{0};
  std::uint32_t sample_ns[8] = {};
};

class Peer {
 public:
  // `may_open_later`: the peer may not have initialized MPI yet.
  Peer(pid_t pid, bool may_open_later) : pid_(pid), may_open_later_(may_open_later) {}

  pid_t pid() const { return pid_; }
  bool is_open() const { return header_ && !is_gone(); }
  bool is_gone() const { return is_replaced_.load(std::memory_order_relaxed) || (header_ && header_->owner_died()); }
  Header* header() const { return header_; }
  const char* bounce() const { return bounce_; }  // nullptr where the kernel copies
  // Returns whether the peer had no heap when it was looked up, but has one now.
  bool is_replaceable(bool has_heap) const { return has_heap && may_open_later_ && !header_; }
  // Returns how many bytes from this address on lie in shared pages. Requires a Copying.
  std::size_t shared_bytes(std::uintptr_t from, std::size_t bytes);
  // Returns how many bytes precede the next shared page.
  std::size_t private_bytes(std::uintptr_t from, std::size_t bytes);

  // Returns the address in this process of an offset in the peer's file, and in `length` how many bytes are contiguous
  // there; nullptr if it cannot be mapped. Requires a PeerGuard.
  char* at(std::size_t offset, bool for_writing, std::size_t& length);

  // Returns whether to request cooperation: the peer polls, and served the last requests; otherwise one in sixteen is
  // tried.
  bool may_cooperate();
  void record_cooperation(bool yes) {
    unanswered_requests_.store(yes ? 0 : unanswered_requests_.load() + 1, std::memory_order_relaxed);
  }
  // Returns whether to request that the peer shares a message's pages. If it never does, it is seldom requested.
  bool may_share();
  void record_share_request();

  // Adds bytes that this process copies from or to the peer's shared pages.
  void add_copied_bytes(std::size_t bytes) const { slot_->copied_bytes.fetch_add(bytes, std::memory_order_relaxed); }

  PeerLatency latency;

 private:
  friend class Peers;
  struct Window {
    std::atomic<char*> begin{nullptr};
    std::atomic<bool> writable{false};
    std::atomic<std::uint32_t> last_used{0};
  };
  bool connect();
  int fetch_file() const;
  bool map_window(Window& window, std::size_t offset, bool for_writing);

  friend class Copying;

  pid_t pid_;
  bool may_open_later_;
  std::atomic<bool> is_replaced_{false};
  int file_ = -1;  // the descriptor in the peer
  std::uint64_t device_ = 0, inode_ = 0;
  Header* header_ = nullptr;
  PageBits bits_;
  Slot* slot_ = nullptr;  // of this process
  const char* bounce_ = nullptr;
  Window* windows_ = nullptr;
  std::atomic<std::uint32_t> unanswered_requests_{0}, skipped_requests_{0};
  std::atomic<std::uint32_t> seen_moves_{0}, unanswered_shares_{0}, share_pause_{0};
};

// While a PeerGuard exists, no window is unmapped.
class PeerGuard {
 public:
  PeerGuard();
  ~PeerGuard();
  PeerGuard(const PeerGuard&) = delete;
  PeerGuard& operator=(const PeerGuard&) = delete;
};

// While a Copying exists, the peer does not free shared pages whose content a message may need and, if this process
// writes, no page moves. The constructor waits while the peer moves pages. Every copy from or to a peer's heap requires
// one, even if the kernel makes the copy in the end.
class Copying {
 public:
  Copying(const Peer& peer, bool writes);
  ~Copying() { count_->fetch_sub(1, std::memory_order_release); }
  Copying(const Copying&) = delete;
  Copying& operator=(const Copying&) = delete;

 private:
  std::atomic<std::uint32_t>* count_;
};

// Returns the peer with this process ID; nullptr if it has no heap that this process can map. `is_open`: a message from
// its heap shows that it has opened one; otherwise a peer without a heap is looked up again when one does. Requires a
// PeerGuard.
Peer* find_peer(pid_t pid, bool is_open = true);

// Called before `bytes` of a peer's memory are written: on a read fault Linux maps 16 existing pages at once, on a
// write fault only one.
void prefault_writable(const char* to, std::size_t bytes);

// Unmaps all windows, unless a message is using one. They are mapped again on demand.
void unmap_windows();

// Called in a forked child, which has no peers yet.
void reset_peers();

// Returns this process's ID without a system call.
pid_t own_process();

struct PeerFacts {
  int peers, windows;
  unsigned nearest_ns, farthest_ns;  // smallest and largest measured latency; 0: none measured
};
PeerFacts peer_facts();

}  // namespace nearfield::heap

// The shared heaps of this node's other processes, as far as this one may read them.
//
// A peer's file is mapped here in windows of 64 MiB, each when a message first needs it, read-only until something
// is written through it. Who may: whoever the kernel lets call process_vm_readv on that process, since the peer's
// header is read that way and its file is fetched by pidfd_getfd, which asks for the same right.
//
// Page tables: a window costs 8 bytes per page that was read through it (1/512 of the bytes; nothing to speak of where
// pages are huge). At most `most_windows` are mapped; then the one that was not used for longest is unmapped.
//
// Threads: any number at once, each inside a Visit.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "heap/region.hpp"

namespace nearfield::heap {

inline constexpr std::size_t window_bytes = std::size_t{64} << 20;
inline constexpr int most_windows = 512;

// The time of a line from the peer's core to this one, which distance.hpp keeps up to date.
struct Apart {
  std::atomic<std::uint32_t> line_ns{0};  // 0: not measured yet
  std::atomic<std::uint64_t> next_look_ns{0}, last_beat{0};
  std::atomic<std::uint32_t> messages{0}, samples_left{0};
  std::uint32_t sample_ns[8] = {};
};

class Peer {
 public:
  explicit Peer(pid_t pid) : pid_(pid) {}

  pid_t pid() const { return pid_; }
  bool is_open() const { return header_ && !is_gone(); }
  bool is_gone() const { return header_ && header_->owner_died(); }
  Header* header() const { return header_; }
  // Returns how many of the bytes from this address on lie in shared pages. Must be called inside a Copying.
  std::size_t shared_bytes(std::uintptr_t from, std::size_t bytes);
  // Returns how many of them come before the next shared page.
  std::size_t private_bytes(std::uintptr_t from, std::size_t bytes);

  // Returns where a byte of its file lies in this process, and in `length` how much follows it there; nullptr if it
  // cannot be mapped. Must be called inside a Visit.
  char* at(std::size_t offset, bool for_writing, std::size_t& length);

  // Returns whether to ask it for help: it looks for orders, and did the last ones; if not, one of sixteen is tried.
  bool may_help();
  void was_helped(bool yes) { in_vain_.store(yes ? 0 : in_vain_.load() + 1, std::memory_order_relaxed); }
  // Returns whether to ask it to share a message's pages. Where it never shares what it is asked for, it is seldom asked.
  bool may_share();
  void was_asked_to_share();

  // Notes that this process copies so much from the peer's shared pages, or to them.
  void note_copied(std::size_t bytes) const { slot_->copied_bytes.fetch_add(bytes, std::memory_order_relaxed); }

  Apart apart;

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
  int file_ = -1;  // the descriptor's number in the peer
  std::uint64_t device_ = 0, inode_ = 0;
  Header* header_ = nullptr;
  PageBits bits_;
  Slot* slot_ = nullptr;  // this process's
  Window* windows_ = nullptr;
  std::atomic<std::uint32_t> in_vain_{0}, asked_{0};
  std::atomic<std::uint32_t> seen_moves_{0}, asked_in_vain_{0}, share_pause_{0};
};

// While a Visit exists, no window is unmapped.
class Visit {
 public:
  Visit();
  ~Visit();
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
};

// While a Copying exists, the peer does not free shared pages whose content a message may need; and if this process
// writes, no page moves. It waits while pages of the peer move. Everybody who copies from or to a peer's heap makes one
// first, also where the kernel copies in the end.
class Copying {
 public:
  Copying(const Peer& peer, bool writes);
  ~Copying() { count_->fetch_sub(1, std::memory_order_release); }
  Copying(const Copying&) = delete;
  Copying& operator=(const Copying&) = delete;

 private:
  std::atomic<std::uint32_t>* count_;
};

// Returns the peer of that process; nullptr if it has no heap that this process can map. Must be called inside a Visit.
Peer* find_peer(pid_t pid);

// Called before `bytes` of a peer's memory are written: reading a byte of it makes Linux map 16 pages at once (where
// they exist), writing only one.
void touch_to_write(const char* to, std::size_t bytes);

// Unmaps all windows, unless a message uses one at this moment. They are mapped again when they are needed.
void unmap_windows();

// Is called in a child, which has no peers yet.
void forget_peers();

// Returns this process's number without a system call.
pid_t own_process();

struct PeerFacts {
  int peers, windows;
  unsigned nearest_ns, farthest_ns;  // of the lines that were timed; 0: none was
};
PeerFacts peer_facts();

}  // namespace nearfield::heap

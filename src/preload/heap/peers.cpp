#include "preload/heap/peers.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdio>
#include <new>

#include "base/linux.h"
#include "preload/heap/copy_requests.hpp"
#include "preload/heap/copy_service.hpp"
#include "preload/heap/kernel_call.hpp"
#include "preload/heap/next_calls.hpp"
#include "preload/heap/seccomp.hpp"

namespace nearfield::heap {
namespace {

constexpr std::size_t windows_per_heap = heap_address_bytes / window_bytes, huge_page = std::size_t{2} << 20;
constexpr std::size_t num_table_slots = 4096;  // in the hash table of peers; a power of two

struct PeerTable {
  std::atomic<Peer*> peers[num_table_slots] = {};
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // for all changes
  std::atomic<int> num_guards{0};
  std::atomic<bool> is_evicting{false};
  std::atomic<std::uint32_t> window_use_clock{0};  // counts uses of windows
  std::atomic<pid_t> own_process_id{0};            // 0: not determined yet
  struct MappedWindow {
    Peer* peer;
    std::size_t index;
  } mapped_windows[max_mapped_windows] = {};
  int num_windows = 0, num_peers = 0;
};

constinit PeerTable peer_table;

std::size_t hash_slot_of(pid_t pid) { return static_cast<std::size_t>(pid) * 0x9e3779b1u % num_table_slots; }

// Maps a zeroed array. Does not call malloc, because this function may run inside malloc. Returns nullptr on failure.
template <typename T>
T* map_array(std::size_t count) {
  void* memory = map_on_demand(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<T*>(memory);
}

ssize_t read_memory(pid_t pid, std::uintptr_t from, void* to, std::size_t bytes) {
  iovec local{to, bytes}, remote{reinterpret_cast<void*>(from), bytes};
  return copy_without_heap(SYS_process_vm_readv, pid, &local, 1, &remote, 1, 0);
}

void exclude_from_fork_and_dump(char* window) {
  madvise(window, window_bytes, MADV_DONTFORK);
  madvise(window, window_bytes, MADV_DONTDUMP);  // the owner's core dump contains these pages
}

// Maps a window of a peer's file at a huge page boundary, so that huge pages of the file can be mapped as such. Returns
// nullptr on failure.
char* map_window_aligned(int file, std::size_t offset, int protection) {
  const std::size_t reserved_bytes = window_bytes + huge_page;
  void* reserved = mmap(nullptr, reserved_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  char* begin = static_cast<char*>(reserved);
  char* aligned =
      reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(begin) + huge_page - 1) / huge_page * huge_page);
  void* at = map_on_demand(aligned, window_bytes, protection, MAP_SHARED | MAP_FIXED, file, static_cast<off_t>(offset));
  if (at == MAP_FAILED) {
    munmap(reserved, reserved_bytes);
    return nullptr;
  }
  if (aligned > begin) munmap(begin, static_cast<std::size_t>(aligned - begin));
  if (aligned + window_bytes < begin + reserved_bytes)
    munmap(aligned + window_bytes, static_cast<std::size_t>(begin + reserved_bytes - aligned - window_bytes));
  exclude_from_fork_and_dump(aligned);
  return aligned;
}

// Maps a part of a peer's file; returns nullptr on failure. A forked child does not inherit the mapping.
void* map_file_part(int file, std::size_t bytes, std::size_t offset, int protection) {
  void* at = map_on_demand(nullptr, bytes, protection, MAP_SHARED, file, static_cast<off_t>(offset));
  if (at == MAP_FAILED) return nullptr;
  madvise(at, bytes, MADV_DONTFORK);
  return at;
}

class TableLock {
 public:
  TableLock() { pthread_mutex_lock(&peer_table.lock); }
  ~TableLock() { pthread_mutex_unlock(&peer_table.lock); }
  TableLock(const TableLock&) = delete;
  TableLock& operator=(const TableLock&) = delete;
};

// Returns the peer with this process ID, and its slot in the table. If there is none, returns nullptr and the slot for
// a new entry, or `num_table_slots` if the table is full.
Peer* find_in_table(pid_t pid, std::size_t& slot) {
  for (std::size_t num_tried = 0; num_tried < num_table_slots; ++num_tried) {
    slot = (hash_slot_of(pid) + num_tried) % num_table_slots;
    Peer* peer = peer_table.peers[slot].load(std::memory_order_acquire);
    if (!peer) return nullptr;
    if (peer->pid() == pid && !peer->is_gone()) return peer;
  }
  slot = num_table_slots;
  return nullptr;
}

}  // namespace

// Returns a descriptor of the peer's file in this process, or -1.
int Peer::fetch_file() const {
  if (!has_same_syscall_filters()) return -1;
  int file = -1;
  if (const int process = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)); process >= 0) {
    file = static_cast<int>(syscall(SYS_pidfd_getfd, process, owner_descriptor_, 0));
    close(process);
  }
  if (file < 0) {  // before Linux 5.6, or forbidden in a container
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%ld/fd/%d", static_cast<long>(pid_), owner_descriptor_);
    file = open(path, O_RDWR | O_CLOEXEC);
  }
  if (file < 0 && serves_copies()) file = request_heap_file(pid_);
  struct stat status{};
  if (file >= 0 && (fstat(file, &status) != 0 || status.st_dev != device_ || status.st_ino != inode_)) {
    close(file);
    return -1;
  }
  return file;
}

// Reads the peer's header and maps its header, bits, slots and bounce buffer. Returns whether the peer has a heap that
// this process can map. Requires the table's lock.
bool Peer::map_heap() {
  HeapFileHeader owner_header;
  if (read_memory(pid_, heap_begin, &owner_header, sizeof owner_header) != static_cast<ssize_t>(sizeof owner_header))
    return false;
  if (!owner_header.has_expected_magic()) return false;
  owner_descriptor_ = owner_header.owner_descriptor;
  device_ = owner_header.device;
  inode_ = owner_header.inode;
  windows_ = map_array<FileWindow>(windows_per_heap);
  const int file = windows_ ? fetch_file() : -1;
  if (file < 0) return false;
  auto* header = static_cast<HeapFileHeader*>(map_file_part(file, page_bytes(), 0, PROT_READ | PROT_WRITE));
  shared_page_bits_.map(file, bits_offset, false);
  auto* peer_slots = static_cast<PeerSlot*>(map_file_part(file, slots_bytes, slots_offset, PROT_READ | PROT_WRITE));
  if (!kernel_may_read(pid_))
    bounce_buffer_ = static_cast<const char*>(map_file_part(file, bounce_bytes, bounce_offset, PROT_READ));
  close(file);
  // has_owner_died(): the owner has died, or only the thread that held the mutex.
  if (!header || !shared_page_bits_.is_mapped() || !peer_slots || header->has_owner_died()) return false;
  const std::uint32_t slot = header->num_taken_slots.fetch_add(1);
  if (slot >= max_peer_slots) return false;
  slot_ = &peer_slots[slot];
  header_ = header;
  return true;
}

// Adds peers to the table, and keeps the number of windows below its limit.
class PeerRegistry {
 public:
  static Peer* add_peer(pid_t pid, bool has_heap) {
    TableLock lock;
    std::size_t slot = 0;
    Peer* existing = find_in_table(pid, slot);
    if (existing && existing->is_replaceable(has_heap)) {
      existing->is_replaced_.store(true);
      existing = find_in_table(pid, slot);
    }
    if (existing || slot == num_table_slots) return existing;
    auto* memory = map_array<Peer>(1);
    if (!memory) return nullptr;
    auto* peer = new (memory) Peer(pid, !has_heap);
    if (!peer->map_heap()) peer->header_ = nullptr;  // stays in the table as a peer without a heap
    ++peer_table.num_peers;
    peer_table.peers[slot].store(peer, std::memory_order_release);
    return peer;
  }

  // Unmaps the least recently used window if the number of windows has reached its limit. Returns whether one more may
  // be mapped; false if another thread holds a PeerGuard, as the caller does, so that no window can be unmapped.
  static bool make_room_for_window() {
    if (peer_table.num_windows < max_mapped_windows) return true;
    peer_table.is_evicting.store(true);
    const bool is_only_guard = peer_table.num_guards.load() == 1;
    if (is_only_guard) {
      int oldest = 0;
      for (int i = 1; i < max_mapped_windows; ++i)
        if (window_uses_since_last_use(i) > window_uses_since_last_use(oldest)) oldest = i;
      unmap_window(oldest);
    }
    peer_table.is_evicting.store(false);
    return is_only_guard;
  }

  static void unmap_all_windows() {
    TableLock lock;
    peer_table.is_evicting.store(true);
    if (peer_table.num_guards.load() == 0)
      while (peer_table.num_windows) unmap_window(peer_table.num_windows - 1);
    peer_table.is_evicting.store(false);
  }

  // Records that a window of this peer has been mapped.
  static void record_mapped_window(Peer* peer, std::size_t index) {
    peer_table.mapped_windows[peer_table.num_windows++] = {peer, index};
  }

 private:
  static void unmap_window(int i) {
    Peer::FileWindow& window = window_of(i);
    munmap(window.begin.load(), window_bytes);
    window.begin.store(nullptr);
    window.is_writable.store(false);
    peer_table.mapped_windows[i] = peer_table.mapped_windows[--peer_table.num_windows];
  }
  static Peer::FileWindow& window_of(int i) {
    return peer_table.mapped_windows[i].peer->windows_[peer_table.mapped_windows[i].index];
  }
  static std::uint32_t window_uses_since_last_use(int i) {
    return peer_table.window_use_clock.load() - window_of(i).last_use_time.load();
  }
};

bool Peer::map_window(FileWindow& window, std::size_t offset, bool for_writing) {
  TableLock lock;
  char* begin = window.begin.load();
  if (!begin) {
    if (!PeerRegistry::make_room_for_window()) return false;
    const int file = fetch_file();
    if (file < 0) return false;
    begin = map_window_aligned(file, offset, for_writing ? PROT_READ | PROT_WRITE : PROT_READ);
    close(file);
    if (!begin) return false;
    window.is_writable.store(for_writing);
    window.begin.store(begin, std::memory_order_release);
    PeerRegistry::record_mapped_window(this, offset / window_bytes);
  } else if (for_writing && !window.is_writable.load()) {
    // mremap() replaces the mapping in one step, since other threads read through it. After mprotect(), every page that
    // has been read would fault again when it is written. Called as a system call, since UCX replaces mremap() by a
    // function that loses the new address.
    const int file = fetch_file();
    if (file < 0) return false;
    void* other = map_file_part(file, window_bytes, offset, PROT_READ | PROT_WRITE);
    close(file);
    if (!other) return false;
    if (syscall(SYS_mremap, other, window_bytes, window_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, begin) == -1) {
      munmap(other, window_bytes);
      return false;
    }
    exclude_from_fork_and_dump(begin);
    window.is_writable.store(true);
  }
  return true;
}

char* Peer::mapped_address(std::size_t offset, bool for_writing, std::size_t& length) {
  FileWindow& window = windows_[offset / window_bytes];
  const std::size_t offset_in_window = offset % window_bytes;
  if ((!window.begin.load(std::memory_order_acquire) || (for_writing && !window.is_writable.load())) &&
      !map_window(window, offset - offset_in_window, for_writing))
    return nullptr;
  const std::uint32_t time = peer_table.window_use_clock.load(std::memory_order_relaxed) + 1;
  peer_table.window_use_clock.store(time, std::memory_order_relaxed);
  window.last_use_time.store(time, std::memory_order_relaxed);
  length = window_bytes - offset_in_window;
  return window.begin.load(std::memory_order_relaxed) + offset_in_window;
}

void prefault_writable(const char* to, std::size_t bytes) {
  constexpr std::size_t mapped_at_once = std::size_t{64} << 10;
  for (std::size_t at = 0; at < bytes; at += mapped_at_once)
    static_cast<void>(static_cast<const volatile char*>(to)[at]);
}

bool Peer::may_cooperate() {
  constexpr std::uint32_t max_unanswered = 4, pause = 16;
  if (!header_->is_owner_polling.load(std::memory_order_relaxed)) return false;
  if (num_unanswered_requests_.load(std::memory_order_relaxed) < max_unanswered) return true;
  const auto number = num_skipped_requests_.load(std::memory_order_relaxed) + 1;
  num_skipped_requests_.store(number, std::memory_order_relaxed);
  return number % pause == 0;
}

namespace {

// Returns how many of the bytes in [from, from + bytes) precede the first page whose bit differs from `is_shared`.
std::size_t leading_bytes_with_bit(PageBits& bits, std::uintptr_t from, std::size_t bytes, bool is_shared) {
  if (!is_in_heap(from) || bytes > heap_begin + heap_address_bytes - from) return is_shared ? 0 : bytes;
  const Spans::Page first = page_of(from), last = page_of(from + bytes - 1);
  if (!bits.make_accessible(last + 1)) return is_shared ? 0 : bytes;
  if (is_shared && bits.are_set(first, last + 1)) return bytes;
  Spans::Page page = first;
  while (page <= last && bits.is_set(page) == is_shared) ++page;
  if (page > last) return bytes;
  return page == first ? 0 : static_cast<std::size_t>(address_of(page) - reinterpret_cast<char*>(from));
}

}  // namespace

std::size_t Peer::leading_shared_bytes(std::uintptr_t from, std::size_t bytes) {
  return leading_bytes_with_bit(shared_page_bits_, from, bytes, true);
}
std::size_t Peer::leading_private_bytes(std::uintptr_t from, std::size_t bytes) {
  return leading_bytes_with_bit(shared_page_bits_, from, bytes, false);
}

bool Peer::may_request_share() {
  const std::uint32_t pause = messages_before_next_share_request_.load(std::memory_order_relaxed);
  if (pause) messages_before_next_share_request_.store(pause - 1, std::memory_order_relaxed);
  return pause == 0;
}

void Peer::record_share_request() {
  constexpr std::uint32_t max_unanswered = 64, max_pause = 1024;  // in messages
  const std::uint32_t moves = header_->num_moved_stretches.load(std::memory_order_relaxed);
  const bool is_unanswered = moves == last_seen_moves_.exchange(moves, std::memory_order_relaxed);
  const std::uint32_t count = is_unanswered ? num_unanswered_share_requests_.load(std::memory_order_relaxed) + 1 : 0;
  num_unanswered_share_requests_.store(count, std::memory_order_relaxed);
  messages_before_next_share_request_.store(count < max_unanswered ? 0 : max_pause, std::memory_order_relaxed);
}

CopyAnnouncement::CopyAnnouncement(const Peer& peer, bool is_write)
    : num_copying_(is_write ? &peer.slot_->num_writers : &peer.slot_->num_readers) {
  num_copying_->fetch_add(1);
  while (peer.header_->are_pages_moving.load() != 0 && !peer.is_gone()) {
    num_copying_->fetch_sub(1);
    sched_yield();
    num_copying_->fetch_add(1);
  }
}

PeerGuard::PeerGuard() {
  peer_table.num_guards.fetch_add(1);
  while (peer_table.is_evicting.load()) {
    peer_table.num_guards.fetch_sub(1);
    {
      TableLock wait_until_eviction_has_ended;
    }
    peer_table.num_guards.fetch_add(1);
  }
}

PeerGuard::~PeerGuard() { peer_table.num_guards.fetch_sub(1, std::memory_order_release); }

Peer* find_peer(pid_t pid, bool has_heap) {
  std::size_t slot = 0;
  Peer* peer = find_in_table(pid, slot);
  if (peer ? peer->is_replaceable(has_heap) : slot < num_table_slots) peer = PeerRegistry::add_peer(pid, has_heap);
  return peer && peer->is_open() ? peer : nullptr;
}

void unmap_windows() { PeerRegistry::unmap_all_windows(); }

pid_t own_process_id() {
  pid_t pid = peer_table.own_process_id.load(std::memory_order_relaxed);
  if (!pid) peer_table.own_process_id.store(pid = getpid(), std::memory_order_relaxed);
  return pid;
}

void reset_peers() {
  peer_table.own_process_id.store(0);
  for (auto& peer : peer_table.peers) peer.store(nullptr);
  peer_table.lock = PTHREAD_MUTEX_INITIALIZER;
  peer_table.num_guards.store(0);
  peer_table.is_evicting.store(false);
  peer_table.num_windows = peer_table.num_peers = 0;
}

PeerFacts peer_facts() {
  TableLock lock;
  PeerFacts facts{peer_table.num_peers, peer_table.num_windows, 0, 0};
  for (const auto& slot : peer_table.peers) {
    const Peer* peer = slot.load();
    const unsigned ns = peer ? peer->latency.line_latency_ns.load() : 0;
    if (ns && (!facts.min_latency_ns || ns < facts.min_latency_ns)) facts.min_latency_ns = ns;
    if (ns > facts.max_latency_ns) facts.max_latency_ns = ns;
  }
  return facts;
}

}  // namespace nearfield::heap

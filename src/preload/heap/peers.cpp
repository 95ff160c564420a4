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

constexpr std::size_t windows_per_heap = heap_span / window_bytes, huge_page = std::size_t{2} << 20;
constexpr std::size_t slots = 4096;  // in the hash table of peers; a power of two

struct PeerTable {
  std::atomic<Peer*> peer[slots] = {};
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // for all changes
  std::atomic<int> users{0};
  std::atomic<bool> is_evicting{false};
  std::atomic<std::uint32_t> clock{0};  // counts uses of windows
  std::atomic<pid_t> own{0};            // 0: not determined yet
  struct Mapped {
    Peer* peer;
    std::size_t index;
  } mapped[max_windows] = {};
  int windows = 0, peers = 0;
};

constinit PeerTable table;

std::size_t hash_slot_of(pid_t pid) { return static_cast<std::size_t>(pid) * 0x9e3779b1u % slots; }

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
char* map_aligned(int file, std::size_t offset, int protection) {
  const std::size_t room = window_bytes + huge_page;
  void* reserved = mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  char* begin = static_cast<char*>(reserved);
  char* aligned =
      reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(begin) + huge_page - 1) / huge_page * huge_page);
  void* at = map_on_demand(aligned, window_bytes, protection, MAP_SHARED | MAP_FIXED, file, static_cast<off_t>(offset));
  if (at == MAP_FAILED) {
    munmap(reserved, room);
    return nullptr;
  }
  if (aligned > begin) munmap(begin, static_cast<std::size_t>(aligned - begin));
  if (aligned + window_bytes < begin + room)
    munmap(aligned + window_bytes, static_cast<std::size_t>(begin + room - aligned - window_bytes));
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
  TableLock() { pthread_mutex_lock(&table.lock); }
  ~TableLock() { pthread_mutex_unlock(&table.lock); }
  TableLock(const TableLock&) = delete;
  TableLock& operator=(const TableLock&) = delete;
};

// Returns the peer with this process ID, and its slot in the table. If there is none, returns nullptr and the slot for
// a new entry, or `slots` if the table is full.
Peer* find_in_table(pid_t pid, std::size_t& slot) {
  for (std::size_t tried = 0; tried < slots; ++tried) {
    slot = (hash_slot_of(pid) + tried) % slots;
    Peer* peer = table.peer[slot].load(std::memory_order_acquire);
    if (!peer) return nullptr;
    if (peer->pid() == pid && !peer->is_gone()) return peer;
  }
  slot = slots;
  return nullptr;
}

}  // namespace

// Returns a descriptor of the peer's file in this process, or -1.
int Peer::fetch_file() const {
  if (!has_same_filters()) return -1;
  int file = -1;
  if (const int process = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)); process >= 0) {
    file = static_cast<int>(syscall(SYS_pidfd_getfd, process, file_, 0));
    close(process);
  }
  if (file < 0) {  // before Linux 5.6, or forbidden in a container
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%ld/fd/%d", static_cast<long>(pid_), file_);
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
bool Peer::connect() {
  Header seen;
  if (read_memory(pid_, heap_begin, &seen, sizeof seen) != static_cast<ssize_t>(sizeof seen)) return false;
  if (!seen.has_expected_magic()) return false;
  file_ = seen.file;
  device_ = seen.device;
  inode_ = seen.inode;
  windows_ = map_array<Window>(windows_per_heap);
  const int file = windows_ ? fetch_file() : -1;
  if (file < 0) return false;
  auto* header = static_cast<Header*>(map_file_part(file, page_bytes(), 0, PROT_READ | PROT_WRITE));
  bits_.map(file, bits_offset, false);
  auto* slots_of_readers = static_cast<Slot*>(map_file_part(file, slots_bytes, slots_offset, PROT_READ | PROT_WRITE));
  if (!kernel_may_read(pid_))
    bounce_ = static_cast<const char*>(map_file_part(file, bounce_bytes, bounce_offset, PROT_READ));
  close(file);
  // owner_died(): the owner has died, or only the thread that held the mutex.
  if (!header || !bits_.is_mapped() || !slots_of_readers || header->owner_died()) return false;
  const std::uint32_t slot = header->slots.fetch_add(1);
  if (slot >= max_slots) return false;
  slot_ = &slots_of_readers[slot];
  header_ = header;
  return true;
}

// Adds peers to the table, and keeps the number of windows below its limit.
class Peers {
 public:
  static Peer* add(pid_t pid, bool is_open) {
    TableLock locked;
    std::size_t slot = 0;
    Peer* known = find_in_table(pid, slot);
    if (known && known->is_replaceable(is_open)) {
      known->is_replaced_.store(true);
      known = find_in_table(pid, slot);
    }
    if (known || slot == slots) return known;
    auto* memory = map_array<Peer>(1);
    if (!memory) return nullptr;
    auto* peer = new (memory) Peer(pid, !is_open);
    if (!peer->connect()) peer->header_ = nullptr;  // stays in the table as a peer without a heap
    ++table.peers;
    table.peer[slot].store(peer, std::memory_order_release);
    return peer;
  }

  // Unmaps the least recently used window if the number of windows has reached its limit. Returns whether one more may
  // be mapped; false if another thread holds a PeerGuard, as the caller does, so that no window can be unmapped.
  static bool make_room() {
    if (table.windows < max_windows) return true;
    table.is_evicting.store(true);
    const bool alone = table.users.load() == 1;
    if (alone) {
      int oldest = 0;
      for (int i = 1; i < max_windows; ++i)
        if (uses_since(i) > uses_since(oldest)) oldest = i;
      unmap_window(oldest);
    }
    table.is_evicting.store(false);
    return alone;
  }

  static void unmap_all() {
    TableLock locked;
    table.is_evicting.store(true);
    if (table.users.load() == 0)
      while (table.windows) unmap_window(table.windows - 1);
    table.is_evicting.store(false);
  }

  // Records that a window of this peer has been mapped.
  static void record_window(Peer* peer, std::size_t index) { table.mapped[table.windows++] = {peer, index}; }

 private:
  static void unmap_window(int i) {
    Peer::Window& window = window_of(i);
    munmap(window.begin.load(), window_bytes);
    window.begin.store(nullptr);
    window.writable.store(false);
    table.mapped[i] = table.mapped[--table.windows];
  }
  static Peer::Window& window_of(int i) { return table.mapped[i].peer->windows_[table.mapped[i].index]; }
  static std::uint32_t uses_since(int i) { return table.clock.load() - window_of(i).last_used.load(); }
};

bool Peer::map_window(Window& window, std::size_t offset, bool for_writing) {
  TableLock locked;
  char* begin = window.begin.load();
  if (!begin) {
    if (!Peers::make_room()) return false;
    const int file = fetch_file();
    if (file < 0) return false;
    begin = map_aligned(file, offset, for_writing ? PROT_READ | PROT_WRITE : PROT_READ);
    close(file);
    if (!begin) return false;
    window.writable.store(for_writing);
    window.begin.store(begin, std::memory_order_release);
    Peers::record_window(this, offset / window_bytes);
  } else if (for_writing && !window.writable.load()) {
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
    window.writable.store(true);
  }
  return true;
}

char* Peer::mapped_address(std::size_t offset, bool for_writing, std::size_t& length) {
  Window& window = windows_[offset / window_bytes];
  const std::size_t inside = offset % window_bytes;
  if ((!window.begin.load(std::memory_order_acquire) || (for_writing && !window.writable.load())) &&
      !map_window(window, offset - inside, for_writing))
    return nullptr;
  const std::uint32_t time = table.clock.load(std::memory_order_relaxed) + 1;
  table.clock.store(time, std::memory_order_relaxed);
  window.last_used.store(time, std::memory_order_relaxed);
  length = window_bytes - inside;
  return window.begin.load(std::memory_order_relaxed) + inside;
}

void prefault_writable(const char* to, std::size_t bytes) {
  constexpr std::size_t mapped_at_once = std::size_t{64} << 10;
  for (std::size_t at = 0; at < bytes; at += mapped_at_once)
    static_cast<void>(static_cast<const volatile char*>(to)[at]);
}

bool Peer::may_cooperate() {
  constexpr std::uint32_t patience = 4, pause = 16;
  if (!header_->owner_polls.load(std::memory_order_relaxed)) return false;
  if (unanswered_requests_.load(std::memory_order_relaxed) < patience) return true;
  const auto number = skipped_requests_.load(std::memory_order_relaxed) + 1;
  skipped_requests_.store(number, std::memory_order_relaxed);
  return number % pause == 0;
}

namespace {

// Returns how many of the bytes in [from, from + bytes) precede the first page whose bit is not `shared`.
std::size_t leading_bytes_with_bit(PageBits& bits, std::uintptr_t from, std::size_t bytes, bool shared) {
  if (!in_heap(from) || bytes > heap_begin + heap_span - from) return shared ? 0 : bytes;
  const Spans::Page first = page_of(from), last = page_of(from + bytes - 1);
  if (!bits.make_accessible(last + 1)) return shared ? 0 : bytes;
  if (shared && bits.are_set(first, last + 1)) return bytes;
  Spans::Page page = first;
  while (page <= last && bits.is_set(page) == shared) ++page;
  if (page > last) return bytes;
  return page == first ? 0 : static_cast<std::size_t>(address_of(page) - reinterpret_cast<char*>(from));
}

}  // namespace

std::size_t Peer::leading_shared_bytes(std::uintptr_t from, std::size_t bytes) {
  return leading_bytes_with_bit(bits_, from, bytes, true);
}
std::size_t Peer::leading_private_bytes(std::uintptr_t from, std::size_t bytes) {
  return leading_bytes_with_bit(bits_, from, bytes, false);
}

bool Peer::may_request_share() {
  const std::uint32_t pause = share_pause_.load(std::memory_order_relaxed);
  if (pause) share_pause_.store(pause - 1, std::memory_order_relaxed);
  return pause == 0;
}

void Peer::record_share_request() {
  constexpr std::uint32_t patience = 64, max_pause = 1024;  // in messages
  const std::uint32_t moves = header_->moves.load(std::memory_order_relaxed);
  const bool unanswered = moves == seen_moves_.exchange(moves, std::memory_order_relaxed);
  const std::uint32_t count = unanswered ? unanswered_shares_.load(std::memory_order_relaxed) + 1 : 0;
  unanswered_shares_.store(count, std::memory_order_relaxed);
  share_pause_.store(count < patience ? 0 : max_pause, std::memory_order_relaxed);
}

Copying::Copying(const Peer& peer, bool writes) : count_(writes ? &peer.slot_->writers : &peer.slot_->readers) {
  count_->fetch_add(1);
  while (peer.header_->moving.load() != 0 && !peer.is_gone()) {
    count_->fetch_sub(1);
    sched_yield();
    count_->fetch_add(1);
  }
}

PeerGuard::PeerGuard() {
  table.users.fetch_add(1);
  while (table.is_evicting.load()) {
    table.users.fetch_sub(1);
    {
      TableLock wait_until_eviction_has_ended;
    }
    table.users.fetch_add(1);
  }
}

PeerGuard::~PeerGuard() { table.users.fetch_sub(1, std::memory_order_release); }

Peer* find_peer(pid_t pid, bool is_open) {
  std::size_t slot = 0;
  Peer* peer = find_in_table(pid, slot);
  if (peer ? peer->is_replaceable(is_open) : slot < slots) peer = Peers::add(pid, is_open);
  return peer && peer->is_open() ? peer : nullptr;
}

void unmap_windows() { Peers::unmap_all(); }

pid_t own_process_id() {
  pid_t pid = table.own.load(std::memory_order_relaxed);
  if (!pid) table.own.store(pid = getpid(), std::memory_order_relaxed);
  return pid;
}

void reset_peers() {
  table.own.store(0);
  for (auto& peer : table.peer) peer.store(nullptr);
  table.lock = PTHREAD_MUTEX_INITIALIZER;
  table.users.store(0);
  table.is_evicting.store(false);
  table.windows = table.peers = 0;
}

PeerFacts peer_facts() {
  TableLock locked;
  PeerFacts facts{table.peers, table.windows, 0, 0};
  for (const auto& slot : table.peer) {
    const Peer* peer = slot.load();
    const unsigned ns = peer ? peer->latency.line_ns.load() : 0;
    if (ns && (!facts.nearest_ns || ns < facts.nearest_ns)) facts.nearest_ns = ns;
    if (ns > facts.farthest_ns) facts.farthest_ns = ns;
  }
  return facts;
}

}  // namespace nearfield::heap

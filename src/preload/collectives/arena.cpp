#include "preload/collectives/arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace nearfield::collectives {
namespace {

constexpr std::size_t arena_bytes = std::size_t{1} << 30;  // address space; only pages that are written use memory
constexpr std::size_t first_box_offset = 4096;             // the first page contains the nonce
constexpr std::size_t box_bytes = (sizeof(Box) + 4095) / 4096 * 4096;

struct ReleasedBox {
  std::size_t offset;
  std::vector<Box*> boxes;
  std::vector<std::uint64_t> closed_before;
  bool is_closed_by_all_ranks() const {
    for (std::size_t i = 0; i < boxes.size(); ++i)
      if (boxes[i]->closed.load(std::memory_order_acquire) <= closed_before[i]) return false;
    return true;
  }
};

struct Arena {
  std::mutex lock;
  pid_t owner_pid = 0;
  ArenaAddress own_address{};
  unsigned char* memory_begin = nullptr;
  std::size_t used_end = first_box_offset;
  std::deque<ReleasedBox> released_boxes;
  // where the arenas of peers are mapped, by nonce
  std::unordered_map<std::uint64_t, unsigned char*> mapped_peer_arenas;
};

// Returns the arena of this process. It is never destroyed, since MPI may be finalised by a destructor. A forked child
// creates its own.
Arena& process_arena() {
  static Arena& instance = *new Arena;
  return instance;
}

std::uint64_t extend_hash(std::uint64_t state, const char* bytes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    state = (state ^ static_cast<unsigned char>(bytes[i])) * std::uint64_t{1099511628211};
  return state;
}

std::uint64_t hash_of_host() {
  char boot[64] = {};
  const int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t count = read(file, boot, sizeof boot);
  close(file);
  struct stat pid_namespace;
  if (count <= 0 || stat("/proc/self/ns/pid", &pid_namespace) != 0) return 0;
  const std::uint64_t state = extend_hash(14695981039346656037u, boot, static_cast<std::size_t>(count));
  return extend_hash(state, reinterpret_cast<const char*>(&pid_namespace.st_ino), sizeof pid_namespace.st_ino) | 1;
}

void create_arena(Arena& arena) {
  arena.owner_pid = getpid();
  arena.own_address = {};
  arena.used_end = first_box_offset;
  arena.released_boxes.clear();
  const int file = memfd_create("nearfield-collectives", MFD_CLOEXEC);
  if (file < 0) return;
  void* begin = MAP_FAILED;
  std::uint64_t nonce = 0;
  if (ftruncate(file, arena_bytes) == 0 && getrandom(&nonce, sizeof nonce, 0) == sizeof nonce)
    begin = mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (begin == MAP_FAILED) {
    close(file);
    return;
  }
  std::memcpy(begin, &nonce, sizeof nonce);
  arena.memory_begin = static_cast<unsigned char*>(begin);
  arena.own_address = {hash_of_host(), nonce, arena.owner_pid, file};
}

unsigned char* map_peer_arena(const ArenaAddress& peer) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%lld/fd/%lld", static_cast<long long>(peer.pid),
                static_cast<long long>(peer.file_descriptor));
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return nullptr;
  struct stat found;
  void* begin = MAP_FAILED;
  if (fstat(file, &found) == 0 && static_cast<std::size_t>(found.st_size) == arena_bytes)
    begin = mmap(nullptr, arena_bytes, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (begin == MAP_FAILED) return nullptr;
  if (std::memcmp(begin, &peer.nonce, sizeof peer.nonce) == 0) return static_cast<unsigned char*>(begin);
  munmap(begin, arena_bytes);
  return nullptr;
}

}  // namespace

const ArenaAddress& own_arena() {
  const std::lock_guard guard(process_arena().lock);
  if (process_arena().owner_pid != getpid()) create_arena(process_arena());
  return process_arena().own_address;
}

std::size_t allocate_box() {
  const std::lock_guard guard(process_arena().lock);
  auto& released_boxes = process_arena().released_boxes;
  // A rank that has ended without freeing a communicator prevents the reuse of the boxes of this communicator only.
  const auto reusable = std::ranges::find_if(released_boxes, &ReleasedBox::is_closed_by_all_ranks);
  if (reusable != released_boxes.end()) {
    const std::size_t offset = reusable->offset;
    released_boxes.erase(reusable);
    Box* const box = reinterpret_cast<Box*>(process_arena().memory_begin + offset);
    for (Line& line : box->lines) line.number.store(0, std::memory_order_relaxed);
    box->read.store(0, std::memory_order_relaxed);
    box->sleeps.store(0, std::memory_order_relaxed);
    return offset;
  }
  if (!process_arena().memory_begin || process_arena().used_end + box_bytes > arena_bytes) return 0;
  const std::size_t offset = process_arena().used_end;
  process_arena().used_end += box_bytes;
  return offset;
}

Box* own_box(std::size_t offset) { return reinterpret_cast<Box*>(process_arena().memory_begin + offset); }

Box* peer_box(const ArenaAddress& peer, std::size_t offset) {
  const std::lock_guard guard(process_arena().lock);
  if (peer.nonce == process_arena().own_address.nonce) return own_box(offset);
  unsigned char*& begin = process_arena().mapped_peer_arenas[peer.nonce];
  if (!begin) begin = map_peer_arena(peer);
  return begin ? reinterpret_cast<Box*>(begin + offset) : nullptr;
}

void release_box(std::size_t offset, Box* const* boxes, const std::uint64_t* closed_before, int num_ranks) {
  Box* const own = own_box(offset);
  own->closed.store(own->closed.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  const std::lock_guard guard(process_arena().lock);
  process_arena().released_boxes.push_back(
      {offset, {boxes, boxes + num_ranks}, {closed_before, closed_before + num_ranks}});
}

}  // namespace nearfield::collectives

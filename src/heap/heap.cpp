#include "heap/heap.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>

#include "heap/blocks.hpp"
#include "heap/fork.hpp"
#include "heap/pages.hpp"
#include "heap/region.hpp"

extern "C" char __libc_single_threaded __attribute__((weak));

namespace nearfield::heap {

std::size_t shared_from = SIZE_MAX;

namespace {

// Free memory is kept for reuse, since pages that come anew cost more than all else here. It returns to the system
// - when the program takes memory elsewhere, so that fragments do not add to what the program had in use at most more
//   than this (the C library keeps as much: mallopt(3), M_TRIM_THRESHOLD) and a part of it;
constexpr std::size_t slack_bytes = std::size_t{64} << 20, slack_part = 8;
// - when nobody has needed it for this long;
constexpr std::int64_t unneeded_ns = 10'000'000'000;
// - at once if it is more than this and a part of what is in use, since the system may need it.
constexpr std::size_t much_idle = std::size_t{256} << 20, much_idle_part = 4;
// If less than this is idle, not even the clock is read.
constexpr std::size_t always_kept = std::size_t{16} << 20;
// From here on, memory for calloc is returned to the system instead of being set to zero: its pages come anew, zero,
// where they are first used.
constexpr std::size_t dropped_from = std::size_t{8} << 20;

// Returns whether the process has only one thread, so that no lock is needed. False if the C library (before glibc
// 2.32) does not tell.
bool is_single_threaded() { return &__libc_single_threaded && __libc_single_threaded; }

class Lock {
 public:
  explicit Lock(pthread_mutex_t& mutex) : mutex_(is_single_threaded() ? nullptr : &mutex) {
    if (mutex_) pthread_mutex_lock(mutex_);
  }
  ~Lock() {
    if (mutex_) pthread_mutex_unlock(mutex_);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  pthread_mutex_t* mutex_;
};

// All members but `current`, `header` and `reason` may be used only under the lock.
struct Heap {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  Region region;
  Blocks blocks;
  int current = -1;  // the region's number; -1: none is open
  std::atomic<Header*> header{nullptr};
  int opened = 0;  // regions; a retired one keeps its addresses, so numbers are not used again
  int forks = 0;
  std::size_t most_taken = 0;  // at any time
  std::size_t least_idle = 0;  // in the period that began then
  std::int64_t period_start_ns = 0;
  const char* reason = nullptr;
  bool helps = false;
};

constinit Heap heap;

// Blocks up to 256 KiB that this thread gave back, in classes a sixteenth apart.
class ThreadCache {
 public:
  void* take(std::size_t bytes);
  bool keep(void* block);
  void flush();
  // Is called when the thread ends, and again if the thread gives back blocks afterwards.
  void end();

 private:
  static constexpr std::size_t least = 4096, longest = std::size_t{256} << 10, most_bytes = std::size_t{1} << 20;
  static constexpr int classes = 6 * 16, most_in_class = 16;

  static int class_of(std::size_t bytes) {
    const int top = std::bit_width(bytes) - 1;
    return (top - 12) * 16 + static_cast<int>((bytes >> (top - 4)) & 15);
  }
  void* pop(int at, std::size_t bytes);
  void drop(int at, int count);

  void* first_[classes] = {};
  std::uint8_t count_[classes] = {};
  std::size_t bytes_ = 0;
  bool ends_with_thread_ = false;
};

[[gnu::tls_model("initial-exec")]] thread_local constinit ThreadCache cache;
pthread_key_t thread_end;
bool have_thread_end = false;

int region_number(const void* block) { return region_of(reinterpret_cast<std::uintptr_t>(block)); }

void*& link(void* block) { return *static_cast<void**>(block); }

// Releases a block of a region that is private by now: its pages go, and its addresses stay unused.
void release_retired(void* block) {
  const std::size_t page = Region::page_bytes(), bytes = Blocks::usable_bytes(block);
  const auto begin = (reinterpret_cast<std::uintptr_t>(block) + page - 1) / page * page;
  const auto end = (reinterpret_cast<std::uintptr_t>(block) + bytes) / page * page;
  if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void release_locked(void* block) {
  if (region_number(block) != heap.current) return release_retired(block);
  heap.blocks.give_back(block);
  const std::size_t idle = heap.blocks.idle_bytes();
  if (idle <= always_kept) return;
  if (const std::size_t most = much_idle + heap.blocks.taken_bytes() / much_idle_part; idle > most) {
    heap.blocks.purge(most / 2);
  } else if (const std::int64_t now = now_ns(CLOCK_MONOTONIC_COARSE); now - heap.period_start_ns >= unneeded_ns) {
    heap.blocks.purge(idle - std::min(idle, heap.least_idle));
    heap.period_start_ns = now;
    heap.least_idle = heap.blocks.idle_bytes();
  }
}

// Called after memory was taken: keeps the records up to date, and returns idle memory where fragments have made too
// much of it.
void note_taken() {
  const std::size_t taken = heap.blocks.taken_bytes(), idle = heap.blocks.idle_bytes();
  heap.least_idle = std::min(heap.least_idle, idle);
  heap.most_taken = std::max(heap.most_taken, taken);
  const std::size_t slack = slack_bytes + heap.most_taken / slack_part;
  if (taken + idle > heap.most_taken + slack) heap.blocks.purge(heap.most_taken + slack / 2 - taken);
}

bool open_region() {
  if (heap.reason) return false;
  if (heap.opened == most_regions) {
    heap.reason = "the program forked too often";
  } else if (const char* problem = heap.region.open(heap.opened)) {
    heap.reason = problem;
  } else {
    heap.current = heap.opened++;
    heap.region.header()->helps.store(heap.helps);
    heap.header.store(heap.region.header());
    return true;
  }
  shared_from = SIZE_MAX;  // blocks that exist stay; no more are asked for
  return false;
}

// Blocks beyond it go to the C library's heap, which usually refuses them, too.
std::size_t physical_memory() {
  static const std::size_t bytes = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * Region::page_bytes();
  return bytes;
}

void* take_locked(std::size_t bytes, std::size_t alignment) {
  if (bytes > physical_memory()) return nullptr;
  if (!heap.region.is_open() && !open_region()) return nullptr;
  if (void* block = heap.blocks.take(bytes, alignment)) {
    note_taken();
    return block;
  }
  const std::size_t had = heap.region.usable_bytes();
  const std::size_t more = heap.region.grow(bytes + alignment + 2 * Blocks::granule);
  if (!more) return nullptr;
  // The page of the header is no block's, so a region's first piece of memory begins behind it.
  heap.blocks.add(heap.region.begin() + had, more);
  void* block = heap.blocks.take(bytes, alignment);
  note_taken();
  return block;
}

void* ThreadCache::pop(int at, std::size_t bytes) {
  void* block = first_[at];
  if (!block || Blocks::usable_bytes(block) < bytes) return nullptr;
  first_[at] = link(block);
  --count_[at];
  bytes_ -= Blocks::usable_bytes(block);
  return block;
}

void* ThreadCache::take(std::size_t bytes) {
  if (bytes < least || bytes >= longest) return nullptr;
  const int own = class_of(bytes);
  void* block = pop(own, bytes);
  if (!block && own + 1 < classes) block = pop(own + 1, bytes);
  if (block && region_number(block) != heap.current) {
    Lock lock(heap.lock);
    release_locked(block);
    return nullptr;
  }
  return block;
}

bool ThreadCache::keep(void* block) {
  const std::size_t bytes = Blocks::usable_bytes(block);
  if (bytes >= longest || bytes < least || region_number(block) != heap.current) return false;
  if (!ends_with_thread_) {
    ends_with_thread_ = true;  // first, since the next line may allocate
    if (have_thread_end) pthread_setspecific(thread_end, this);
  }
  const int at = class_of(bytes);
  if (count_[at] == most_in_class) drop(at, most_in_class / 2);
  if (bytes_ + bytes > most_bytes) flush();
  link(block) = first_[at];
  first_[at] = block;
  ++count_[at];
  bytes_ += bytes;
  return true;
}

void ThreadCache::drop(int at, int count) {
  Lock lock(heap.lock);
  for (; count > 0 && first_[at]; --count) {
    void* block = first_[at];
    first_[at] = link(block);
    --count_[at];
    bytes_ -= Blocks::usable_bytes(block);
    release_locked(block);
  }
}

void ThreadCache::flush() {
  for (int at = 0; at < classes; ++at)
    if (count_[at]) drop(at, count_[at]);
}

void ThreadCache::end() {
  ends_with_thread_ = false;
  flush();
}

// Its blocks stay where they are, but are none of heap.blocks from here on.
void leave_region() {
  heap.header.store(nullptr);
  heap.current = -1;
  heap.blocks = Blocks{};
  heap.region = Region{};
}

}  // namespace

void open_heap(const Settings& settings) {
  have_thread_end = pthread_key_create(&thread_end, [](void* ended) { static_cast<ThreadCache*>(ended)->end(); }) == 0;
  watch_forks();
  // Is called by the first thread, which holds Header::alive as long as the program lives.
  if (open_region()) shared_from = settings.from < 1024 ? 1024 : settings.from;
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (alignment <= Blocks::granule)
    if (void* block = cache.take(bytes)) return block;
  Lock lock(heap.lock);
  return take_locked(bytes, alignment);
}

void* allocate_zeroed(std::size_t bytes) {
  if (void* block = cache.take(bytes)) return std::memset(block, 0, bytes);
  char* untouched;
  char* block;
  {
    Lock lock(heap.lock);
    untouched = heap.blocks.untouched();
    block = static_cast<char*>(take_locked(bytes, 1));
    if (block && !untouched) untouched = block;  // the region's first block
  }
  if (!block) return nullptr;
  std::memset(block, 0, Blocks::granule);  // the list of free blocks was here
  if (block >= untouched) return block;
  std::size_t used = static_cast<std::size_t>(untouched - block);
  if (used > bytes) used = bytes;
  if (used >= dropped_from) {
    const std::size_t page = Region::page_bytes();
    char* from = reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(block) + page - 1) / page * page);
    char* upto = reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(block) + used) / page * page);
    if (madvise(from, static_cast<std::size_t>(upto - from), MADV_REMOVE) == 0) {
      forget_huge_pages(from, static_cast<std::size_t>(upto - from));
      std::memset(block, 0, static_cast<std::size_t>(from - block));
      std::memset(upto, 0, static_cast<std::size_t>(block + used - upto));
      return block;
    }
  }
  std::memset(block, 0, used);
  return block;
}

void release(void* block) {
  if (cache.keep(block)) return;
  Lock lock(heap.lock);
  release_locked(block);
}

bool resize_in_place(void* block, std::size_t bytes) {
  Lock lock(heap.lock);
  if (region_number(block) != heap.current || !heap.blocks.resize(block, bytes)) return false;
  note_taken();
  return true;
}

std::size_t usable_bytes(const void* block) { return Blocks::usable_bytes(block); }

void trim() {
  cache.flush();
  Lock lock(heap.lock);
  heap.blocks.purge(0);
}

Header* current_header() { return heap.header.load(std::memory_order_acquire); }

void offer_help() {
  Lock lock(heap.lock);
  heap.helps = true;
  if (heap.region.is_open()) heap.region.header()->helps.store(1);
}

void beat() {
  // A header stays mapped when its region is retired, so that another thread may fork meanwhile.
  if (Header* header = heap.header.load(std::memory_order_relaxed))
    header->beat.store(header->beat.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void lock_heap() { pthread_mutex_lock(&heap.lock); }
bool try_to_lock_heap() { return pthread_mutex_trylock(&heap.lock) == 0; }
void unlock_heap() { pthread_mutex_unlock(&heap.lock); }
void renew_heap_lock() { heap.lock = PTHREAD_MUTEX_INITIALIZER; }
bool heap_is_open() { return heap.region.is_open(); }
int heap_region() { return heap.current; }

std::size_t heap_content_bytes() {
  const char* end = heap.blocks.untouched();
  return end > heap.region.begin() ? static_cast<std::size_t>(end - heap.region.begin()) : 0;
}

void let_child_inherit(bool yes) {
  heap.region.inherit(yes);
  if (yes) ++heap.forks;
}

void copy_inherited_heap() {
  heap.region.copy(heap.blocks.untouched());
  leave_region();
}

bool retire_heap() {
  if (!heap.region.retire()) return false;
  ++heap.forks;
  leave_region();
  return true;
}

HeapFacts heap_facts() {
  Lock lock(heap.lock);
  return {heap.blocks.taken_bytes(), heap.region.usable_bytes(), heap.opened, heap.forks, heap.reason};
}

}  // namespace nearfield::heap

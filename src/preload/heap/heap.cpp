#include "preload/heap/heap.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>

#include "preload/heap/next_calls.hpp"
#include "preload/heap/pages.hpp"
#include "preload/heap/region.hpp"
#include "preload/heap/sharing.hpp"
#include "preload/heap/spans.hpp"

extern "C" char __libc_single_threaded __attribute__((weak));

namespace nearfield::heap {

constinit std::atomic<std::size_t> shared_from{SIZE_MAX};

namespace {

// Free memory is retained for reuse, because faulting in fresh pages is the largest cost of an allocation. Free memory
// that has been used (idle memory) returns to the system in four cases:
// 1. At an allocation, if allocated and idle memory together exceed the peak of allocated memory by more than a slack,
//    so that fragmentation adds at most the slack to the peak usage. The slack is small, but large while purging would
//    take more than a fourth of the time (may_purge()).
constexpr std::size_t MiB = std::size_t{1} << 20;
constexpr std::size_t slack(std::size_t max_taken) { return std::min(MiB + max_taken / 16, 8 * MiB + max_taken / 64); }
constexpr std::size_t large_slack(std::size_t max_taken) { return 64 * MiB + max_taken / 8; }
// Idle pages that peers share are retained in addition to the slack, up to this size, because moving pages into the
// shared file again costs more than a message.
constexpr std::size_t shared_reserve(std::size_t max_taken) { return 16 * MiB + max_taken / 32; }
constexpr std::int64_t purge_part = 4, purge_burst_ns = 2'000'000, purge_period_ns = 1'000'000'000;
constexpr std::size_t bytes_per_ns = 4;  // estimated speed of returning pages and faulting them in again
// 2. When it has been idle for this long.
constexpr std::int64_t unneeded_ns = 10'000'000'000;
// 3. When idle memory exceeds 256 MiB plus a fourth of the allocated memory, since other programs may need it.
constexpr std::size_t much_idle = std::size_t{256} << 20, much_idle_part = 4;
// 4. When a block is freed that is very long, or longer than all blocks freed before, and no messages pass through the
//    block (returns_at_once()).
//
// While less memory than this is idle, a free checks neither case 2 nor case 3, and does not read the clock.
constexpr std::size_t min_retained = std::size_t{16} << 20;
// Blocks from this size on begin at a huge page boundary; for shorter blocks the gaps would waste too much memory. If
// calloc() reuses memory for such a block, the heap does not clear the memory but returns it to the system, so that
// zero pages are faulted in where they are first used.
constexpr std::size_t very_long = 32 * MiB;
// A block that moves is copied in pieces of this size, each of which returns to the system once it is copied.
constexpr std::size_t moved_at_once = MiB;

// Bounds internal fragmentation. A block wastes half a page on average. If all blocks together waste more than
// max_lost_bytes plus 1/256 of the allocated memory, the minimum size of blocks rises, up to long_block
// (choose_shared_from()).
constexpr std::size_t max_lost_bytes = std::size_t{512} << 10, max_lost_part = 256, long_block = std::size_t{128} << 10;

// Returns whether the process has only one thread, so that no lock is needed; false before glibc 2.32, which does not
// report it.
bool is_single_threaded() { return &__libc_single_threaded && __libc_single_threaded; }

// Locks the mutex unless the process has only one thread.
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

// All members except `reason` require the lock.
struct Heap {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  Region region;
  Spans spans;
  std::size_t blocks = 0;
  std::size_t min_block_bytes = 0;
  int forks = 0;
  std::size_t max_taken = 0;                 // peak of the bytes in allocated blocks
  std::size_t max_freed_block = long_block;  // bytes of the longest block freed so far; at most very_long
  std::size_t min_idle = 0;                  // minimum of the idle bytes since period_start_ns
  std::int64_t period_start_ns = 0;
  // Start of the current period of purging for fragmentation, and the estimated time spent on purging in it.
  std::int64_t purge_start_ns = 0, purge_ns = 0;
  const char* reason = nullptr;

  std::size_t taken() const { return std::size_t{spans.taken_pages()} << page_shift(); }
  std::size_t idle() const { return std::size_t{spans.idle_pages()} << page_shift(); }
};

constinit Heap heap;

Spans::Page pages_for(std::size_t bytes) {
  return static_cast<Spans::Page>((bytes + page_bytes() - 1) >> page_shift());
}
std::size_t capacity(const void* block) { return std::size_t{heap.spans.pages_of(page_of(block))} << page_shift(); }

// This thread's cache of freed blocks of up to 64 pages, by number of pages.
class ThreadCache {
 public:
  void* take(std::size_t bytes);
  bool keep(void* block);
  void flush();
  // Called when the thread ends, and again if other destructors of the thread free blocks afterwards.
  void end();

 private:
  static constexpr Spans::Page max_pages = 64;
  static constexpr std::size_t max_bytes = std::size_t{512} << 10;
  static constexpr int max_in_class = 16;

  void* pop(Spans::Page pages);
  void drop(Spans::Page pages, int count);

  void* first_[max_pages + 1] = {};
  std::uint8_t count_[max_pages + 1] = {};
  std::size_t bytes_ = 0;
  bool ends_with_thread_ = false;
};

[[gnu::tls_model("initial-exec")]] thread_local constinit ThreadCache cache;
pthread_key_t thread_end;
bool have_thread_end = false;

void*& link(void* block) { return *static_cast<void**>(block); }

// Returns free pages to the system, by the C library's madvise() and not by a system call, because network libraries
// intercept madvise() to learn which of their registered pages have lost their content.
void drop_pages(Spans::Page first, Spans::Page pages) {
  char* at = address_of(first);
  const std::size_t bytes = std::size_t{pages} << page_shift();
  unshare(at, bytes, Content::dropped);
  forget_special_pages(at, bytes);
  forget_advice(at, bytes);
  next_madvise(at, bytes, MADV_DONTNEED);
}

// Returns free pages to the system, except pages that peers share, as long as all shared pages together fit into
// shared_reserve(). Returns whether the pages were returned.
bool drop_free_pages(Spans::Page first, Spans::Page pages) {
  const std::size_t bytes = std::size_t{pages} << page_shift();
  if (sharing_facts().shared_bytes <= shared_reserve(heap.max_taken) && is_partly_shared(address_of(first), bytes))
    return false;
  drop_pages(first, pages);
  return true;
}

void purge(std::size_t keep) { heap.spans.purge(static_cast<Spans::Page>(keep >> page_shift()), drop_free_pages); }

void choose_shared_from() {
  std::size_t from = heap.min_block_bytes, allowed = max_lost_bytes + heap.taken() / max_lost_part;
  const std::size_t lost = heap.blocks * page_bytes() / 2;
  for (; lost > allowed && from < long_block; allowed *= 2) from *= 2;
  shared_from.store(from, std::memory_order_relaxed);
}

// Returns whether a freed block returns to the system at once, by the rule of the C library (mallopt(3),
// M_MMAP_THRESHOLD): if the block is longer than all blocks freed before, or very long. A block whose first page is
// shared is retained.
bool returns_at_once(const void* block, std::size_t bytes) {
  return bytes > heap.max_freed_block && !is_shared(block, page_bytes());
}

void release_locked(void* block) {
  const Spans::Page first = page_of(block), pages = heap.spans.pages_of(first);
  const std::size_t bytes = std::size_t{pages} << page_shift();
  if (returns_at_once(block, bytes)) {
    if (bytes <= very_long) heap.max_freed_block = bytes;
    drop_pages(first, pages);
    heap.spans.give_back_zero(first);
  } else {
    heap.spans.give_back(first);
  }
  --heap.blocks;
  choose_shared_from();
  const std::size_t idle = heap.idle();
  if (idle <= min_retained) return;
  if (const std::size_t max_idle = much_idle + heap.taken() / much_idle_part; idle > max_idle) {
    purge(max_idle / 2);
  } else if (const std::int64_t now = now_ns(CLOCK_MONOTONIC_COARSE); now - heap.period_start_ns >= unneeded_ns) {
    purge(idle - std::min(idle, heap.min_idle));
    heap.period_start_ns = now;
    heap.min_idle = heap.idle();
  }
}

// Returns whether purging for fragmentation, with the page faults that follow, has taken at most a fourth of the time
// in the current period of a second, apart from the first 2 ms.
bool may_purge(std::int64_t now) {
  if (now - heap.purge_start_ns >= purge_period_ns) {
    heap.purge_start_ns = now;
    heap.purge_ns = 0;
  }
  return heap.purge_ns <= purge_burst_ns + (now - heap.purge_start_ns) / purge_part;
}

// Called after an allocation: updates the peak of allocated and the minimum of idle memory, and purges idle memory if
// allocated and idle memory together exceed the peak by more than the slack.
void note_taken() {
  const std::size_t taken = heap.taken(), idle = heap.idle();
  heap.min_idle = std::min(heap.min_idle, idle);
  heap.max_taken = std::max(heap.max_taken, taken);
  const std::size_t shared = std::min(sharing_facts().shared_bytes, shared_reserve(heap.max_taken));
  std::size_t room = slack(heap.max_taken) + shared;
  if (taken + idle <= heap.max_taken + room) return;
  if (!may_purge(now_ns(CLOCK_MONOTONIC))) room = large_slack(heap.max_taken) + shared;
  if (taken + idle <= heap.max_taken + room) return;
  purge(heap.max_taken + room / 2 - taken);
  heap.purge_ns += static_cast<std::int64_t>((idle - heap.idle()) / bytes_per_ns);
}

// Returns the size of physical memory in bytes. Longer blocks are left to the C library's heap, which usually refuses
// them as well.
std::size_t physical_memory() {
  static const std::size_t bytes = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * page_bytes();
  return bytes;
}

// Maps more pages, so that at least `pages` pages at the end of the heap are free. Returns whether that succeeded.
bool grow(Spans::Page pages) {
  const Spans::Page had = heap.region.usable_pages(), free = heap.spans.free_pages_at_end();
  const Spans::Page more = heap.region.grow(std::max(pages, free + 1) - free);
  if (more) heap.spans.add(had, more);
  return more != 0;
}

void* take_locked(std::size_t bytes, std::size_t alignment, bool& is_zero) {
  if (!heap.region.is_open() || bytes > physical_memory() || alignment > heap_span / 4) return nullptr;
  if (bytes >= very_long && alignment < huge_page_bytes) alignment = huge_page_bytes;
  const Spans::Page pages = pages_for(bytes), aligned = std::max(pages_for(alignment), Spans::Page{1});
  Spans::Page first = heap.spans.take(pages, aligned, is_zero);
  if (first == Spans::none) {
    if (!grow(pages + aligned)) return nullptr;
    first = heap.spans.take(pages, aligned, is_zero);
    if (first == Spans::none) return nullptr;
  }
  heap.spans.set_wanted_bytes(first, bytes);
  ++heap.blocks;
  choose_shared_from();
  note_taken();
  return address_of(first);
}

void* ThreadCache::pop(Spans::Page pages) {
  void* block = first_[pages];
  if (!block) return nullptr;
  first_[pages] = link(block);
  --count_[pages];
  bytes_ -= capacity(block);
  return block;
}

void* ThreadCache::take(std::size_t bytes) {
  const Spans::Page pages = pages_for(bytes);
  if (bytes == 0 || pages > max_pages) return nullptr;
  void* block = pop(pages);
  if (!block && pages >= 16 && pages < max_pages) block = pop(pages + 1);
  if (block) heap.spans.set_wanted_bytes(page_of(block), bytes);
  return block;
}

bool ThreadCache::keep(void* block) {
  const Spans::Page pages = heap.spans.pages_of(page_of(block));
  if (pages > max_pages) return false;
  if (!ends_with_thread_) {
    ends_with_thread_ = true;  // set first, since pthread_setspecific() may allocate and free blocks
    if (have_thread_end) pthread_setspecific(thread_end, this);
  }
  if (count_[pages] == max_in_class) drop(pages, max_in_class / 2);
  if (bytes_ + capacity(block) > max_bytes) flush();
  link(block) = first_[pages];
  first_[pages] = block;
  ++count_[pages];
  bytes_ += capacity(block);
  return true;
}

void ThreadCache::drop(Spans::Page pages, int count) {
  Lock lock(heap.lock);
  while (count-- > 0)
    if (void* block = pop(pages)) release_locked(block);
}

void ThreadCache::flush() {
  for (Spans::Page pages = 1; pages <= max_pages; ++pages)
    if (count_[pages]) drop(pages, count_[pages]);
}

void ThreadCache::end() {
  ends_with_thread_ = false;
  flush();
}

}  // namespace

void open_heap(const Settings& settings) {
  have_thread_end = pthread_key_create(&thread_end, [](void* ended) { static_cast<ThreadCache*>(ended)->end(); }) == 0;
  Lock lock(heap.lock);  // the program may have other threads already
  heap.reason = heap.region.open();
  // This thread, which initializes MPI, locks the mutex Header::alive and holds it for the thread's lifetime.
  if (!heap.reason) heap.reason = open_sharing();
  if (heap.reason) return;
  heap.spans.start(heap.region.table());
  heap.min_block_bytes = std::max(settings.min_block_bytes, std::size_t{1024});
  choose_shared_from();
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (alignment <= page_bytes())
    if (void* block = cache.take(bytes)) return block;
  handle_share_hint();
  bool is_zero = false;
  Lock lock(heap.lock);
  return take_locked(bytes, alignment, is_zero);
}

void* allocate_zeroed(std::size_t bytes) {
  if (void* block = cache.take(bytes)) return std::memset(block, 0, bytes);
  bool is_zero = false;
  void* block;
  {
    Lock lock(heap.lock);
    block = take_locked(bytes, 1, is_zero);
    if (block && !is_zero && bytes >= very_long) {
      drop_pages(page_of(block), pages_for(bytes));
      is_zero = true;
    }
  }
  return block && !is_zero ? std::memset(block, 0, bytes) : block;
}

void release(void* block) {
  if (cache.keep(block)) return;
  Lock lock(heap.lock);
  release_locked(block);
}

bool resize_in_place(void* block, std::size_t bytes) {
  if (bytes > physical_memory()) return false;
  Lock lock(heap.lock);
  const Spans::Page first = page_of(block), pages = pages_for(bytes), had = heap.spans.pages_of(first);
  if (pages != had && !heap.spans.resize(first, pages)) {
    if (!heap.spans.is_last(first) || !grow(pages - had) || !heap.spans.resize(first, pages)) return false;
  }
  heap.spans.set_wanted_bytes(first, bytes);
  note_taken();
  return true;
}

void move_content(void* to, void* from, std::size_t bytes) {
  auto* source = static_cast<char*>(from);
  auto* target = static_cast<char*>(to);
  for (; bytes >= 2 * moved_at_once; bytes -= moved_at_once, source += moved_at_once, target += moved_at_once) {
    std::memcpy(target, source, moved_at_once);
    Lock lock(heap.lock);
    drop_pages(page_of(source), pages_for(moved_at_once));
  }
  std::memcpy(target, source, bytes);
}

std::size_t usable_bytes(const void* block) { return heap.spans.wanted_bytes(page_of(block)); }

void trim() {
  cache.flush();
  Lock lock(heap.lock);
  heap.spans.purge(0, [](Spans::Page first, Spans::Page pages) {
    drop_pages(first, pages);
    return true;
  });
}

void announce_cooperation() {
  if (Header* header = own_header()) header->helps.store(1);
}

void tick() {
  if (Header* header = own_header())
    header->tick.store(header->tick.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void lock_heap() { pthread_mutex_lock(&heap.lock); }
bool try_to_lock_heap() { return pthread_mutex_trylock(&heap.lock) == 0; }
void unlock_heap() { pthread_mutex_unlock(&heap.lock); }
void renew_heap_lock() { heap.lock = PTHREAD_MUTEX_INITIALIZER; }
Spans::Page heap_pages() { return heap.region.usable_pages(); }
Spans::Page content_pages() { return heap.spans.untouched_page(); }
bool heap_is_open() { return heap.region.is_open(); }
void count_fork() { ++heap.forks; }

bool is_end_of_block(std::uintptr_t address) {
  const Spans::Page first = heap.spans.taken_span_that_ends_at(page_of(address - 1));
  if (first == Spans::none) return false;
  return reinterpret_cast<std::uintptr_t>(address_of(first)) + heap.spans.wanted_bytes(first) <= address;
}

bool begins_on_second_page(const void* address) {
  if (!in_heap(address)) return false;
  Lock lock(heap.lock);
  const Spans::Page page = page_of(address);
  return page > 1 && page < heap.region.usable_pages() && heap.spans.is_taken_span(page - 1);
}

HeapFacts heap_facts() {
  Lock lock(heap.lock);
  return {heap.taken(), std::size_t{heap.region.usable_pages()} << page_shift(), heap.forks, heap.reason};
}

}  // namespace nearfield::heap

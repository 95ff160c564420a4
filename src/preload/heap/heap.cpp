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

constinit std::atomic<std::size_t> min_heap_block_bytes{SIZE_MAX};

namespace {

// Free memory is retained for reuse, because faulting in fresh pages is the largest cost of an allocation. Free memory
// that has been used (idle memory) returns to the system in four cases:
// 1. At an allocation, if allocated and idle memory together exceed the peak of allocated memory by more than a slack,
//    so that fragmentation adds at most the slack to the peak usage. The slack is small, but large while purging would
//    take more than a fourth of the time (may_purge()).
constexpr std::size_t MiB = std::size_t{1} << 20;
constexpr std::size_t idle_slack(std::size_t peak_allocated_bytes) {
  return std::min(MiB + peak_allocated_bytes / 16, 8 * MiB + peak_allocated_bytes / 64);
}
constexpr std::size_t large_idle_slack(std::size_t peak_allocated_bytes) { return 64 * MiB + peak_allocated_bytes / 8; }
// Idle pages that peers share are retained in addition to the slack, up to this size, because moving pages into the
// shared file again costs more than a message.
constexpr std::size_t shared_idle_reserve(std::size_t peak_allocated_bytes) {
  return 16 * MiB + peak_allocated_bytes / 32;
}
constexpr std::int64_t inverse_purge_share = 4, purge_burst_ns = 2'000'000, purge_period_ns = 1'000'000'000;
constexpr std::size_t purged_bytes_per_ns = 4;  // estimated speed of returning pages and faulting them in again
// 2. Memory that has been idle for this long returns to the system.
constexpr std::int64_t max_idle_ns = 10'000'000'000;
// 3. When idle memory exceeds 256 MiB plus a fourth of the allocated memory, half of that limit stays idle and the rest
//    returns to the system, since other programs may need it.
constexpr std::size_t max_idle_bytes = std::size_t{256} << 20, inverse_max_idle_share = 4;
// 4. When a block is freed that is very long, or longer than all blocks freed before, its memory returns at once, if no
//    messages pass through the block (should_return_at_once()).
//
// While no more memory than this is idle, a free checks neither case 2 nor case 3, and does not read the clock.
constexpr std::size_t always_retained_bytes = std::size_t{16} << 20;
// Blocks from this size on begin at a huge page boundary; for shorter blocks the gaps would waste too much memory. If
// calloc() reuses memory for such a block, the heap does not clear the memory but returns it to the system, so that
// zero pages are faulted in where they are first used.
constexpr std::size_t very_long_block_bytes = 32 * MiB;
// A block that moves is copied in pieces of this size, each of which returns to the system once it is copied.
constexpr std::size_t moved_piece_bytes = MiB;

// Bounds internal fragmentation. A block wastes half a page on average. If all blocks together waste more than
// max_wasted_bytes plus 1/256 of the allocated memory, the minimum size of blocks rises, up to long_block_bytes
// (update_min_heap_block()).
constexpr std::size_t max_wasted_bytes = std::size_t{512} << 10, inverse_max_wasted_share = 256,
                      long_block_bytes = std::size_t{128} << 10;

// Returns whether the process has only one thread, so that no lock is needed; false before glibc 2.32, which does not
// report it.
bool is_single_threaded() { return &__libc_single_threaded && __libc_single_threaded; }

// Locks the mutex unless the process has only one thread.
class MutexLock {
 public:
  explicit MutexLock(pthread_mutex_t& mutex) : mutex_(is_single_threaded() ? nullptr : &mutex) {
    if (mutex_) pthread_mutex_lock(mutex_);
  }
  ~MutexLock() {
    if (mutex_) pthread_mutex_unlock(mutex_);
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  pthread_mutex_t* mutex_;
};

// All members except `reason_closed` require the lock.
struct HeapState {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  HeapRegion region;
  Spans spans;
  std::size_t num_blocks = 0;
  std::size_t min_block_bytes = 0;
  int num_forks = 0;
  std::size_t peak_allocated_bytes = 0;  // peak of the bytes in allocated blocks
  // bytes of the longest block freed so far; at most very_long_block_bytes
  std::size_t max_freed_block_bytes = long_block_bytes;
  std::size_t min_idle_bytes = 0;  // minimum of the idle bytes since period_start_ns
  std::int64_t period_start_ns = 0;
  // Start of the current period of purging for fragmentation, and the estimated time spent on purging in it.
  std::int64_t purge_start_ns = 0, time_purging_ns = 0;
  const char* reason_closed = nullptr;

  std::size_t allocated_bytes() const { return std::size_t{spans.num_allocated_pages()} << page_shift(); }
  std::size_t idle_bytes() const { return std::size_t{spans.num_idle_pages()} << page_shift(); }
};

constinit HeapState heap;

Spans::Page num_pages_for(std::size_t bytes) {
  return static_cast<Spans::Page>((bytes + page_bytes() - 1) >> page_shift());
}
std::size_t block_capacity(const void* block) {
  return std::size_t{heap.spans.num_pages_of(page_of(block))} << page_shift();
}

// This thread's cache of freed blocks of up to 64 pages, by number of pages.
class ThreadCache {
 public:
  void* take_block(std::size_t bytes);
  bool insert_block(void* block);
  void flush();
  // Called when the thread ends, and again if other destructors of the thread free blocks afterwards.
  void flush_at_thread_end();

 private:
  static constexpr Spans::Page max_block_pages = 64;
  static constexpr std::size_t max_bytes = std::size_t{512} << 10;
  static constexpr int max_blocks_per_class = 16;

  void* pop_block(Spans::Page pages);
  void release_cached_blocks(Spans::Page pages, int count);

  void* first_block_[max_block_pages + 1] = {};
  std::uint8_t num_blocks_[max_block_pages + 1] = {};
  std::size_t cached_bytes_ = 0;
  bool ends_with_thread_ = false;
};

[[gnu::tls_model("initial-exec")]] thread_local constinit ThreadCache thread_cache;
pthread_key_t thread_end_key;
bool has_thread_end_key = false;

void*& next_in_cache(void* block) { return *static_cast<void**>(block); }

// Returns free pages to the system, by the C library's madvise() and not by a system call, because network libraries
// intercept madvise() to learn which of their registered pages have lost their content.
void return_pages(Spans::Page first, Spans::Page pages) {
  char* at = address_of(first);
  const std::size_t bytes = std::size_t{pages} << page_shift();
  unshare(at, bytes, PageContent::dropped);
  forget_special_pages(at, bytes);
  forget_huge_page_advice(at, bytes);
  next_madvise(at, bytes, MADV_DONTNEED);
}

// Returns free pages to the system, except pages that peers share, as long as all shared pages together fit into
// shared_idle_reserve(). Returns whether the pages were returned.
bool return_free_pages(Spans::Page first, Spans::Page pages) {
  const std::size_t bytes = std::size_t{pages} << page_shift();
  if (sharing_facts().shared_bytes <= shared_idle_reserve(heap.peak_allocated_bytes) &&
      is_partly_shared(address_of(first), bytes))
    return false;
  return_pages(first, pages);
  return true;
}

void purge_idle_pages(std::size_t keep) {
  heap.spans.purge(static_cast<Spans::Page>(keep >> page_shift()), return_free_pages);
}

void update_min_heap_block() {
  std::size_t from = heap.min_block_bytes,
              allowed_wasted_bytes = max_wasted_bytes + heap.allocated_bytes() / inverse_max_wasted_share;
  const std::size_t wasted = heap.num_blocks * page_bytes() / 2;
  for (; wasted > allowed_wasted_bytes && from < long_block_bytes; allowed_wasted_bytes *= 2) from *= 2;
  min_heap_block_bytes.store(from, std::memory_order_relaxed);
}

// Returns whether a freed block returns to the system at once, by the rule of the C library (mallopt(3),
// M_MMAP_THRESHOLD): if the block is longer than all blocks freed before, or very long. A block whose first page is
// shared is retained.
bool should_return_at_once(const void* block, std::size_t bytes) {
  return bytes > heap.max_freed_block_bytes && !is_shared(block, page_bytes());
}

void release_block_locked(void* block) {
  const Spans::Page first = page_of(block), pages = heap.spans.num_pages_of(first);
  const std::size_t bytes = std::size_t{pages} << page_shift();
  if (should_return_at_once(block, bytes)) {
    if (bytes <= very_long_block_bytes) heap.max_freed_block_bytes = bytes;
    return_pages(first, pages);
    heap.spans.release_zeroed(first);
  } else {
    heap.spans.release(first);
  }
  --heap.num_blocks;
  update_min_heap_block();
  const std::size_t idle = heap.idle_bytes();
  if (idle <= always_retained_bytes) return;
  if (const std::size_t max_idle = max_idle_bytes + heap.allocated_bytes() / inverse_max_idle_share; idle > max_idle) {
    purge_idle_pages(max_idle / 2);
  } else if (const std::int64_t now = now_ns(CLOCK_MONOTONIC_COARSE); now - heap.period_start_ns >= max_idle_ns) {
    purge_idle_pages(idle - std::min(idle, heap.min_idle_bytes));
    heap.period_start_ns = now;
    heap.min_idle_bytes = heap.idle_bytes();
  }
}

// Returns whether purging for fragmentation, with the page faults that follow, has taken at most a fourth of the time
// in the current period of a second, apart from the first 2 ms.
bool may_purge(std::int64_t now) {
  if (now - heap.purge_start_ns >= purge_period_ns) {
    heap.purge_start_ns = now;
    heap.time_purging_ns = 0;
  }
  return heap.time_purging_ns <= purge_burst_ns + (now - heap.purge_start_ns) / inverse_purge_share;
}

// Called after an allocation: updates the peak of allocated and the minimum of idle memory, and purges idle memory if
// allocated and idle memory together exceed the peak by more than the slack.
void record_allocation() {
  const std::size_t allocated_bytes = heap.allocated_bytes(), idle = heap.idle_bytes();
  heap.min_idle_bytes = std::min(heap.min_idle_bytes, idle);
  heap.peak_allocated_bytes = std::max(heap.peak_allocated_bytes, allocated_bytes);
  const std::size_t shared = std::min(sharing_facts().shared_bytes, shared_idle_reserve(heap.peak_allocated_bytes));
  std::size_t max_excess_bytes = idle_slack(heap.peak_allocated_bytes) + shared;
  if (allocated_bytes + idle <= heap.peak_allocated_bytes + max_excess_bytes) return;
  if (!may_purge(now_ns(CLOCK_MONOTONIC))) max_excess_bytes = large_idle_slack(heap.peak_allocated_bytes) + shared;
  if (allocated_bytes + idle <= heap.peak_allocated_bytes + max_excess_bytes) return;
  purge_idle_pages(heap.peak_allocated_bytes + max_excess_bytes / 2 - allocated_bytes);
  heap.time_purging_ns += static_cast<std::int64_t>((idle - heap.idle_bytes()) / purged_bytes_per_ns);
}

// Returns the size of physical memory in bytes. Longer blocks are left to the C library's heap, which usually refuses
// them as well.
std::size_t physical_memory_bytes() {
  static const std::size_t bytes = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * page_bytes();
  return bytes;
}

// Maps more pages, so that at least `pages` pages at the end of the heap are free. Returns whether that succeeded.
bool grow_heap(Spans::Page pages) {
  const Spans::Page old_pages = heap.region.num_usable_pages(), free = heap.spans.num_free_pages_at_end();
  const Spans::Page num_new_pages = heap.region.grow(std::max(pages, free + 1) - free);
  if (num_new_pages) heap.spans.add_pages(old_pages, num_new_pages);
  return num_new_pages != 0;
}

void* allocate_locked(std::size_t bytes, std::size_t alignment, bool& is_zero) {
  if (!heap.region.is_open() || bytes > physical_memory_bytes() || alignment > heap_address_bytes / 4) return nullptr;
  if (bytes >= very_long_block_bytes && alignment < huge_page_bytes) alignment = huge_page_bytes;
  const Spans::Page pages = num_pages_for(bytes), alignment_pages = std::max(num_pages_for(alignment), Spans::Page{1});
  Spans::Page first = heap.spans.allocate(pages, alignment_pages, is_zero);
  if (first == Spans::no_page) {
    if (!grow_heap(pages + alignment_pages)) return nullptr;
    first = heap.spans.allocate(pages, alignment_pages, is_zero);
    if (first == Spans::no_page) return nullptr;
  }
  heap.spans.set_requested_bytes(first, bytes);
  ++heap.num_blocks;
  update_min_heap_block();
  record_allocation();
  return address_of(first);
}

void* ThreadCache::pop_block(Spans::Page pages) {
  void* block = first_block_[pages];
  if (!block) return nullptr;
  first_block_[pages] = next_in_cache(block);
  --num_blocks_[pages];
  cached_bytes_ -= block_capacity(block);
  return block;
}

void* ThreadCache::take_block(std::size_t bytes) {
  const Spans::Page pages = num_pages_for(bytes);
  if (bytes == 0 || pages > max_block_pages) return nullptr;
  void* block = pop_block(pages);
  if (!block && pages >= 16 && pages < max_block_pages) block = pop_block(pages + 1);
  if (block) heap.spans.set_requested_bytes(page_of(block), bytes);
  return block;
}

bool ThreadCache::insert_block(void* block) {
  const Spans::Page pages = heap.spans.num_pages_of(page_of(block));
  if (pages > max_block_pages) return false;
  if (!ends_with_thread_) {
    ends_with_thread_ = true;  // set first, since pthread_setspecific() may allocate and free blocks
    if (has_thread_end_key) pthread_setspecific(thread_end_key, this);
  }
  if (num_blocks_[pages] == max_blocks_per_class) release_cached_blocks(pages, max_blocks_per_class / 2);
  if (cached_bytes_ + block_capacity(block) > max_bytes) flush();
  next_in_cache(block) = first_block_[pages];
  first_block_[pages] = block;
  ++num_blocks_[pages];
  cached_bytes_ += block_capacity(block);
  return true;
}

void ThreadCache::release_cached_blocks(Spans::Page pages, int count) {
  MutexLock lock(heap.lock);
  while (count-- > 0)
    if (void* block = pop_block(pages)) release_block_locked(block);
}

void ThreadCache::flush() {
  for (Spans::Page pages = 1; pages <= max_block_pages; ++pages)
    if (num_blocks_[pages]) release_cached_blocks(pages, num_blocks_[pages]);
}

void ThreadCache::flush_at_thread_end() {
  ends_with_thread_ = false;
  flush();
}

}  // namespace

void open_heap(const Settings& settings) {
  has_thread_end_key = pthread_key_create(&thread_end_key, [](void* ended) {
                         static_cast<ThreadCache*>(ended)->flush_at_thread_end();
                       }) == 0;
  MutexLock lock(heap.lock);  // the program may have other threads already
  heap.reason_closed = heap.region.open();
  // This thread, which initializes MPI, locks the mutex HeapFileHeader::alive_mutex and holds it for the thread's
  // lifetime.
  if (!heap.reason_closed) heap.reason_closed = open_heap_file();
  if (heap.reason_closed) return;
  heap.spans.set_table(heap.region.span_table());
  heap.min_block_bytes = std::max(settings.min_block_bytes, std::size_t{1024});
  update_min_heap_block();
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (alignment <= page_bytes())
    if (void* block = thread_cache.take_block(bytes)) return block;
  handle_share_hint();
  bool is_zero = false;
  MutexLock lock(heap.lock);
  return allocate_locked(bytes, alignment, is_zero);
}

void* allocate_zeroed(std::size_t bytes) {
  if (void* block = thread_cache.take_block(bytes)) return std::memset(block, 0, bytes);
  bool is_zero = false;
  void* block;
  {
    MutexLock lock(heap.lock);
    block = allocate_locked(bytes, 1, is_zero);
    if (block && !is_zero && bytes >= very_long_block_bytes) {
      return_pages(page_of(block), num_pages_for(bytes));
      is_zero = true;
    }
  }
  return block && !is_zero ? std::memset(block, 0, bytes) : block;
}

void release_block(void* block) {
  if (thread_cache.insert_block(block)) return;
  MutexLock lock(heap.lock);
  release_block_locked(block);
}

bool resize_in_place(void* block, std::size_t bytes) {
  if (bytes > physical_memory_bytes()) return false;
  MutexLock lock(heap.lock);
  const Spans::Page first = page_of(block), pages = num_pages_for(bytes), old_pages = heap.spans.num_pages_of(first);
  if (pages != old_pages && !heap.spans.resize(first, pages)) {
    if (!heap.spans.only_free_pages_follow(first) || !grow_heap(pages - old_pages) || !heap.spans.resize(first, pages))
      return false;
  }
  heap.spans.set_requested_bytes(first, bytes);
  record_allocation();
  return true;
}

void move_block_content(void* to, void* from, std::size_t bytes) {
  auto* source = static_cast<char*>(from);
  auto* target = static_cast<char*>(to);
  for (; bytes >= 2 * moved_piece_bytes;
       bytes -= moved_piece_bytes, source += moved_piece_bytes, target += moved_piece_bytes) {
    std::memcpy(target, source, moved_piece_bytes);
    MutexLock lock(heap.lock);
    return_pages(page_of(source), num_pages_for(moved_piece_bytes));
  }
  std::memcpy(target, source, bytes);
}

std::size_t requested_block_bytes(const void* block) { return heap.spans.requested_bytes(page_of(block)); }

void trim_heap() {
  thread_cache.flush();
  MutexLock lock(heap.lock);
  heap.spans.purge(0, [](Spans::Page first, Spans::Page pages) {
    return_pages(first, pages);
    return true;
  });
}

void announce_cooperation() {
  if (HeapFileHeader* header = own_header()) header->is_owner_polling.store(1);
}

void increment_tick() {
  if (HeapFileHeader* header = own_header())
    header->tick.store(header->tick.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void lock_heap() { pthread_mutex_lock(&heap.lock); }
bool try_to_lock_heap() { return pthread_mutex_trylock(&heap.lock) == 0; }
void unlock_heap() { pthread_mutex_unlock(&heap.lock); }
void reinitialize_heap_lock_after_fork() { heap.lock = PTHREAD_MUTEX_INITIALIZER; }
Spans::Page num_mapped_heap_pages() { return heap.region.num_usable_pages(); }
Spans::Page num_ever_allocated_pages() { return heap.spans.first_untouched_page(); }
bool is_heap_open() { return heap.region.is_open(); }
void count_fork() { ++heap.num_forks; }

bool is_end_of_block(std::uintptr_t address) {
  const Spans::Page first = heap.spans.allocated_span_ending_at(page_of(address - 1));
  if (first == Spans::no_page) return false;
  return reinterpret_cast<std::uintptr_t>(address_of(first)) + heap.spans.requested_bytes(first) <= address;
}

bool is_in_second_page_of_block(const void* address) {
  if (!is_in_heap(address)) return false;
  MutexLock lock(heap.lock);
  const Spans::Page page = page_of(address);
  return page > 1 && page < heap.region.num_usable_pages() && heap.spans.begins_multipage_span(page - 1);
}

HeapFacts heap_facts() {
  MutexLock lock(heap.lock);
  return {heap.allocated_bytes(), std::size_t{heap.region.num_usable_pages()} << page_shift(), heap.num_forks,
          heap.reason_closed};
}

}  // namespace nearfield::heap

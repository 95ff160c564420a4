#include "preload/heap/sharing.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/linux.h"
#include "preload/heap/heap.hpp"
#include "preload/heap/next_calls.hpp"
#include "preload/heap/page_range.hpp"
#include "preload/heap/pages.hpp"
#include "preload/heap/start.hpp"
#include "preload/heap/users.hpp"

namespace nearfield::heap {

constinit std::atomic<HeapFileHeader*>* own_header_address = nullptr;

namespace {

using Page = Spans::Page;

constexpr std::size_t min_shared_message_bytes = 4096;  // bytes; the kernel copies shorter messages as fast
// Each stretch, a range of shared pages, is a mapping of its own. Linux allows 65530 mappings per process.
constexpr unsigned max_stretches = 16384;
// How long the owner waits for peers that copy: before it makes pages private, and before it shares pages.
constexpr std::int64_t unshare_timeout_ns = 2'000'000'000, share_timeout_ns = 1'000'000;
// The number of bytes that move into the file is limited to `initial_moved_bytes_limit`, plus one byte for every
// `copied_bytes_per_moved_byte` bytes that peers have copied from or to shared pages. If a program sends each block
// only a few times, a copy by the kernel is cheaper than moving the block's pages.
constexpr std::uint64_t initial_moved_bytes_limit = std::uint64_t{64} << 20, copied_bytes_per_moved_byte = 2;
constexpr std::int64_t inverse_time_share = 50;  // failed attempts to share take at most 1/50 of the time

struct SharingState {
  HeapFile heap_file;
  PageBits pages_with_message;  // pages through which a message has passed
  // pages that are not shared until the heap has returned them to the system (keep_private())
  PageBits unshareable_pages;
  PageBits rma_window_pages;     // pages that one-sided calls may access
  PageBits copy_on_write_pages;  // private copy-on-write pages of the file, which are never shared again
  // No attempt to share pages is made before this time, [0] for messages in flight, [1] for completed messages:
  // attempts of one kind may succeed where attempts of the other kind always fail.
  std::int64_t next_attempt_ns[2] = {};
  // Bytes that have moved into the file since the process began, and their present limit (may_share_more_pages()).
  std::atomic<std::uint64_t> moved_bytes, moved_bytes_limit;
  std::size_t num_shared_pages = 0;
  unsigned num_stretches = 0;  // upper bound of their number: adjacent ones count separately
  Page first_shared_page = ~Page{0}, end_shared_page = 0;  // bounds of all shared pages
};
constinit SharingState sharing_state;

bool map_header_address() {
  if (own_header_address) return true;
  void* page = next_mmap(nullptr, page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  next_madvise(page, page_bytes(), MADV_WIPEONFORK);
  own_header_address = static_cast<std::atomic<HeapFileHeader*>*>(page);
  return true;
}

bool is_shared_page(Page page) { return sharing_state.heap_file.shared_page_bits().is_set(page); }

// Calls visit(from, end_page) for each maximal range of pages whose bit equals `is_shared`, until a call returns false.
// Returns whether all calls returned true.
template <typename F>
bool for_each_stretch(PageRange pages, bool is_shared, F visit) {
  for (Page from = pages.first_page; from < pages.end_page;) {
    Page end_page = from + 1;
    while (end_page < pages.end_page && is_shared_page(end_page) == is_shared_page(from)) ++end_page;
    if (is_shared_page(from) == is_shared && !visit(from, end_page)) return false;
    from = end_page;
  }
  return true;
}

off_t file_offset_of(Page page) { return static_cast<off_t>(std::size_t{page} << page_shift()); }

bool write_all(int file, const char* from, std::size_t bytes, off_t at) {
  while (bytes) {
    const ssize_t done = pwrite(file, from, bytes, at);
    if (done <= 0) return false;
    from += done;
    at += done;
    bytes -= static_cast<std::size_t>(done);
  }
  return true;
}

bool read_all(int file, char* to, std::size_t bytes, off_t at) {
  while (bytes) {
    const ssize_t done = pread(file, to, bytes, at);
    if (done <= 0) return false;
    to += done;
    at += done;
    bytes -= static_cast<std::size_t>(done);
  }
  return true;
}

void free_file_pages(Page from, Page end_page) {
  fallocate(sharing_state.heap_file.descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, file_offset_of(from),
            static_cast<off_t>(bytes_of_pages(from, end_page)));
}

bool can_write_file() {
  rlimit limit{};
  return sharing_state.heap_file.has_own_descriptor() && getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
         limit.rlim_cur >= file_bytes;
}

// Calls act(begin, end) for pieces of a stretch, each at most a huge page, so that only one piece of the moving memory
// exists twice at a time. Returns false if a call did.
template <typename F>
bool for_each_piece(Page from, Page end_page, F visit) {
  const auto piece = static_cast<Page>(huge_page_bytes >> page_shift());
  for (Page end; from < end_page; from = end) {
    end = std::min(end_page, (from / piece + 1) * piece);
    if (!visit(from, end)) return false;
  }
  return true;
}

// Moves private pages into the file. Returns whether that succeeded. The kernel reads the content, by pwrite(), so
// memory that the program has made unreadable causes an error and not a signal.
bool share_piece(Page from, Page end_page) {
  const std::size_t bytes = bytes_of_pages(from, end_page);
  const int file = sharing_state.heap_file.descriptor();
  if (!sharing_state.heap_file.shared_page_bits().make_accessible(end_page) ||
      !write_all(file, address_of(from), bytes, file_offset_of(from)) ||
      next_mmap(address_of(from), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED | MAP_POPULATE,
                file, file_offset_of(from)) == MAP_FAILED) {
    free_file_pages(from, end_page);
    return false;
  }
  next_madvise(address_of(from), bytes, MADV_DONTFORK);
  sharing_state.heap_file.shared_page_bits().set(from, end_page);
  sharing_state.moved_bytes.fetch_add(bytes, std::memory_order_relaxed);
  sharing_state.num_shared_pages += end_page - from;
  sharing_state.first_shared_page = std::min(sharing_state.first_shared_page, from);
  sharing_state.end_shared_page = std::max(sharing_state.end_shared_page, end_page);
  return true;
}

bool share_stretch(Page from, Page end_page) {
  ++sharing_state.num_stretches;
  if (HeapFileHeader* header = own_header()) ++header->num_moved_stretches;
  return for_each_piece(from, end_page, share_piece);
}

// Waits until no peer copies from this heap (`count_of_copies` is num_readers) or to it (num_writers). Returns false if
// a peer has not finished after `timeout_ns`, for example because it has been stopped.
bool wait_until_no_peer_copies(std::atomic<std::uint32_t> PeerSlot::* count_of_copies, std::int64_t timeout_ns) {
  const std::int64_t limit = now_ns(CLOCK_MONOTONIC) + timeout_ns;
  const std::uint32_t num_slots = std::min(sharing_state.heap_file.header()->num_taken_slots.load(), max_peer_slots);
  for (std::uint32_t slot = 0; slot < num_slots; ++slot)
    while ((sharing_state.heap_file.slots()[slot].*count_of_copies).load() != 0) {
      if (now_ns(CLOCK_MONOTONIC) > limit) return false;
      sched_yield();
    }
  return true;
}

// While a PeerCopyBlocker exists, peers do not begin to copy from or to this heap, and this thread's signal handlers do
// not run.
class PeerCopyBlocker {
 public:
  PeerCopyBlocker() {
    sigset_t all_signals;
    sigfillset(&all_signals);
    pthread_sigmask(SIG_BLOCK, &all_signals, &previous_signal_mask_);
    sharing_state.heap_file.header()->are_pages_moving.store(1);
  }
  ~PeerCopyBlocker() {
    sharing_state.heap_file.header()->are_pages_moving.store(0);
    pthread_sigmask(SIG_SETMASK, &previous_signal_mask_, nullptr);
  }
  PeerCopyBlocker(const PeerCopyBlocker&) = delete;
  PeerCopyBlocker& operator=(const PeerCopyBlocker&) = delete;
  // Returns whether no peer writes to this heap any more.
  bool have_peer_writes_ended() const { return wait_until_no_peer_copies(&PeerSlot::num_writers, share_timeout_ns); }

 private:
  sigset_t previous_signal_mask_;
};

bool map_anonymous(Page from, Page end_page) {
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  forget_huge_pages(address_of(from), bytes_of_pages(from, end_page));
  return next_mmap(address_of(from), bytes_of_pages(from, end_page), PROT_READ | PROT_WRITE, flags, -1, 0) !=
         MAP_FAILED;
}

// Replaces a range of shared pages by private memory with the same content. No thread and no peer may write to the
// pages.
void copy_back(Page from, Page end_page) {
  const std::size_t bytes = bytes_of_pages(from, end_page);
  char* at = address_of(from);
  if (sharing_state.heap_file.has_own_descriptor()) {
    if (map_anonymous(from, end_page)) read_all(sharing_state.heap_file.descriptor(), at, bytes, file_offset_of(from));
    return;
  }
  void* content = next_mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (content == MAP_FAILED) return;
  std::memcpy(content, at, bytes);
  if (map_anonymous(from, end_page)) std::memcpy(at, content, bytes);
  next_munmap(content, bytes);
}

// Replaces a range of shared pages, to which threads or peers may be writing, by a private mapping of the same pages of
// the file: mmap() changes the mapping atomically, and the kernel copies a page when it is next written.
void copy_on_write(Page from, Page end_page) {
  next_mmap(address_of(from), bytes_of_pages(from, end_page), PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, sharing_state.heap_file.descriptor(), file_offset_of(from));
  for (Page page = from; page < end_page; ++page) sharing_state.copy_on_write_pages.set(page);
}

void unshare_stretch(Page from, Page end_page, PageContent content, MemoryUsers users) {
  sharing_state.heap_file.shared_page_bits().clear(from, end_page);
  if (content == PageContent::dropped) {  // no message is in flight in these pages
    map_anonymous(from, end_page);
    free_file_pages(from, end_page);
  } else if (!sharing_state.heap_file.has_own_descriptor()) {
    copy_back(from, end_page);
  } else if (wait_until_no_peer_copies(&PeerSlot::num_writers, unshare_timeout_ns) && users == MemoryUsers::none &&
             wait_until_no_peer_copies(&PeerSlot::num_readers, unshare_timeout_ns)) {
    for_each_piece(from, end_page, [](Page begin, Page end) {
      copy_back(begin, end);
      free_file_pages(begin, end);
      return true;
    });
  } else {
    copy_on_write(from, end_page);
  }
  sharing_state.num_shared_pages -= end_page - from;
  if (sharing_state.num_stretches) --sharing_state.num_stretches;
}

void unshare_pages(PageRange pages, PageContent content) {
  if (!sharing_state.num_shared_pages) return;
  pages = {std::max(pages.first_page, sharing_state.first_shared_page),
           std::min(pages.end_page, sharing_state.end_shared_page)};
  if (pages.is_empty()) return;
  {
    const PeerCopyBlocker blocker;
    const MemoryUsers users = content == PageContent::retained ? find_other_memory_users() : MemoryUsers::none;
    for_each_stretch(pages, true, [=](Page from, Page end_page) {
      unshare_stretch(from, end_page, content, users);
      return true;
    });
  }
  if (sharing_state.num_shared_pages) return;
  sharing_state.num_stretches = 0;
  sharing_state.first_shared_page = ~Page{0};
  sharing_state.end_shared_page = 0;
}

// Returns whether a message has passed through the first of `pages` before. Records that a message has passed now.
bool has_seen_message(PageRange pages) {
  if (settings().shares_at_first_message) return true;
  const bool seen = sharing_state.pages_with_message.is_set(pages.first_page);
  return (seen || sharing_state.pages_with_message.set(pages.first_page)) && seen;
}

bool contains_special_page(PageRange pages) {
  for (Page page = pages.first_page; page < pages.end_page; ++page)
    if (sharing_state.unshareable_pages.is_set(page) || sharing_state.copy_on_write_pages.is_set(page)) return true;
  return false;
}

bool contains_window_page(PageRange pages) {
  for (Page page = pages.first_page; page < pages.end_page; ++page)
    if (sharing_state.rma_window_pages.is_set(page)) return true;
  return false;
}

// Returns whether more pages may move into the file, by the limit that initial_moved_bytes_limit describes.
bool may_share_more_pages() {
  const HeapFileHeader* header = own_header();
  if (!header || settings().shares_at_first_message) return header != nullptr;
  const std::uint64_t moved_bytes = sharing_state.moved_bytes.load(std::memory_order_relaxed);
  if (moved_bytes < sharing_state.moved_bytes_limit.load(std::memory_order_relaxed)) return true;
  std::uint64_t copied_bytes = 0;
  const std::uint32_t num_slots = std::min(header->num_taken_slots.load(), max_peer_slots);
  for (std::uint32_t slot = 0; slot < num_slots; ++slot)
    copied_bytes += sharing_state.heap_file.slots()[slot].copied_bytes.load(std::memory_order_relaxed);
  const std::uint64_t limit_bytes = initial_moved_bytes_limit + copied_bytes / copied_bytes_per_moved_byte;
  sharing_state.moved_bytes_limit.store(limit_bytes, std::memory_order_relaxed);
  return moved_bytes < limit_bytes;
}

// Shares those pages of [from, from + bytes) that are safe to share. Returns false if no page could move into the file;
// true also if this message is the first one through the memory.
bool share_locked(const char* from, std::size_t bytes, bool is_mpi_message) {
  const PageRange pages = pages_overlapping(from, bytes);
  if (pages.is_empty() || pages.end_page > num_mapped_heap_pages() || !own_header()) return false;
  if (sharing_state.num_stretches >= max_stretches || contains_special_page(pages) || !can_write_file()) return false;
  if (!has_seen_message(pages)) return true;
  const PeerCopyBlocker blocker;
  if (!blocker.have_peer_writes_ended()) return false;
  const MemoryUsers users = find_other_memory_users();
  if (users == MemoryUsers::unknown ||
      (users == MemoryUsers::threads && (!is_mpi_message || contains_window_page(pages))))
    return false;
  const std::size_t before = sharing_state.num_shared_pages;
  for_each_stretch(users == MemoryUsers::none ? pages : pages_filled_by(from, bytes), false, share_stretch);
  return sharing_state.num_shared_pages != before;
}

}  // namespace

const char* open_heap_file() {
  if (sharing_state.heap_file.is_open()) return nullptr;
  if (!map_header_address()) return "address space is limited (ulimit -v)";
  if (const char* problem = sharing_state.heap_file.open()) return problem;
  own_header_address->store(sharing_state.heap_file.header(), std::memory_order_release);
  return nullptr;
}

bool is_partly_shared(const void* from, std::size_t bytes) {
  return sharing_state.num_shared_pages &&
         !for_each_stretch(pages_overlapping(from, bytes), true, [](Page, Page) { return false; });
}

char* own_bounce_buffer() { return sharing_state.heap_file.bounce_buffer(); }

int own_heap_file() { return sharing_state.heap_file.has_own_descriptor() ? sharing_state.heap_file.descriptor() : -1; }

bool is_shared(const void* from, std::size_t bytes) {
  const PageRange pages = pages_overlapping(from, bytes);
  return !pages.is_empty() && own_header() &&
         sharing_state.heap_file.shared_page_bits().are_set(pages.first_page, pages.end_page);
}

void add_rma_window(const void* from, std::size_t bytes) {
  const PageRange pages = pages_overlapping(from, bytes);
  for (Page page = pages.first_page; page < pages.end_page; ++page) sharing_state.rma_window_pages.set(page);
}

void share_message(const char* from, std::size_t bytes, bool is_mpi_message) {
  if (bytes < min_shared_message_bytes || is_shared(from, bytes) || !may_share_more_pages()) return;
  const std::int64_t start = now_ns(CLOCK_MONOTONIC);
  std::int64_t& next_attempt_ns = sharing_state.next_attempt_ns[is_mpi_message ? 0 : 1];
  if (start < next_attempt_ns || !try_to_lock_heap()) return;
  const int error = errno;
  const bool has_shared = share_locked(from, bytes, is_mpi_message);
  const std::int64_t end = now_ns(CLOCK_MONOTONIC);
  next_attempt_ns = has_shared ? 0 : end + (end - start) * inverse_time_share;
  errno = error;
  unlock_heap();
}

void handle_share_hint() {
  HeapFileHeader* header = own_header();
  if (!header || header->share_hint.state.load(std::memory_order_acquire) != CopyRequest::posted) return;
  const auto from = header->share_hint.from;
  const auto bytes = header->share_hint.bytes;
  header->share_hint.state.store(CopyRequest::none, std::memory_order_release);
  if (is_in_heap(from)) share_message(reinterpret_cast<const char*>(from), bytes, false);
}

void unshare(const void* from, std::size_t bytes, PageContent content) {
  const int error = errno;
  const PageRange pages = pages_overlapping(from, bytes);
  unshare_pages(pages, content);
  if (content == PageContent::dropped)
    for (Page page = pages.first_page; page < pages.end_page; ++page)
      // or else the file's content would reappear
      if (sharing_state.copy_on_write_pages.is_set(page)) map_anonymous(page, page + 1);
  errno = error;
}

void keep_private(const void* from, std::size_t bytes) {
  const PageRange pages = pages_overlapping(from, bytes);
  unshare(from, bytes, PageContent::retained);
  for (Page page = pages.first_page; page < pages.end_page; ++page) sharing_state.unshareable_pages.set(page);
}

void forget_special_pages(const void* from, std::size_t bytes) {
  const PageRange pages = pages_overlapping(from, bytes);
  sharing_state.unshareable_pages.clear(pages.first_page, pages.end_page);
  sharing_state.rma_window_pages.clear(pages.first_page, pages.end_page);
}

bool prepare_pages_for_fork() {
  if (!sharing_state.num_shared_pages) return false;
  const PageRange pages{sharing_state.first_shared_page, sharing_state.end_shared_page};
  if (find_other_memory_users() == MemoryUsers::none) {
    unshare_pages(pages, PageContent::retained);
    return false;
  }
  sharing_state.heap_file.shared_page_bits().set_inherited_by_children(true);
  for_each_stretch(pages, true, [](Page from, Page end_page) {
    return next_madvise(address_of(from), bytes_of_pages(from, end_page), MADV_DOFORK) == 0;
  });
  return true;
}

void unshare_all() {
  unshare_pages({sharing_state.first_shared_page, sharing_state.end_shared_page}, PageContent::retained);
}

void end_page_inheritance() {
  for_each_stretch({sharing_state.first_shared_page, sharing_state.end_shared_page}, true,
                   [](Page from, Page end_page) {
                     return next_madvise(address_of(from), bytes_of_pages(from, end_page), MADV_DONTFORK) == 0;
                   });
  sharing_state.heap_file.shared_page_bits().set_inherited_by_children(false);
}

void copy_inherited_pages() {
  for_each_stretch({sharing_state.first_shared_page, sharing_state.end_shared_page}, true,
                   [](Page from, Page end_page) {
                     copy_back(from, end_page);
                     return true;
                   });
  sharing_state.heap_file.shared_page_bits().unmap();
}

void reset_sharing() {
  if (own_header_address) own_header_address->store(nullptr);
  if (sharing_state.heap_file.has_own_descriptor()) close(sharing_state.heap_file.descriptor());
  sharing_state.heap_file.forget_mapping();
  sharing_state.num_shared_pages = sharing_state.num_stretches = 0;
  sharing_state.first_shared_page = ~Page{0};
  sharing_state.end_shared_page = 0;
  sharing_state.next_attempt_ns[0] = sharing_state.next_attempt_ns[1] = 0;
  sharing_state.moved_bytes = sharing_state.moved_bytes_limit = 0;
}

SharingFacts sharing_facts() {
  const HeapFileHeader* header = own_header();
  return {sharing_state.num_shared_pages << page_shift(), header ? header->num_moved_stretches.load() : 0};
}

}  // namespace nearfield::heap

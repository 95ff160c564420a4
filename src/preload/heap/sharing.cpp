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

constinit std::atomic<Header*>* own_header_address = nullptr;

namespace {

using Page = Spans::Page;

constexpr std::size_t min_shared_message = 4096;  // bytes; the kernel copies shorter messages as fast
// Each stretch, a range of shared pages, is a mapping of its own. Linux allows 65530 mappings per process.
constexpr unsigned max_stretches = 16384;
// How long the owner waits for peers that copy: before it makes pages private, and before it shares pages.
constexpr std::int64_t unshare_patience_ns = 2'000'000'000, share_patience_ns = 1'000'000;
// These limit how many bytes move into the file: `moved_in_advance`, and one more byte for every `copied_per_moved`
// bytes that peers have copied from or to shared pages. If a program sends each block only a few times, a copy by the
// kernel is cheaper than moving the block's pages.
constexpr std::uint64_t moved_in_advance = std::uint64_t{64} << 20, copied_per_moved = 2;
constexpr std::int64_t inverse_time_share = 50;  // failed attempts to share take at most 1/50 of the time

struct Sharing {
  HeapFile file;
  PageBits seen;     // pages through which a message has passed
  PageBits special;  // pages that are not shared until the heap has returned them to the system (keep_private())
  PageBits windows;  // pages that one-sided calls may access
  PageBits stale;    // private copy-on-write pages of the file, which are never shared again
  // No attempt to share pages is made before this time, [0] for messages in flight, [1] for completed messages:
  // attempts of one kind may succeed where attempts of the other kind always fail.
  std::int64_t not_before_ns[2] = {};
  // Bytes that have moved into the file since the process began, and their present limit (may_share_more_pages()).
  std::atomic<std::uint64_t> moved_bytes, allowed_bytes;
  std::size_t shared_pages = 0;
  unsigned stretches = 0;                        // upper bound of their number: adjacent ones count separately
  Page shared_from = ~Page{0}, shared_upto = 0;  // bounds of all shared pages
};
constinit Sharing sharing;

bool map_header_address() {
  if (own_header_address) return true;
  void* page = next_mmap(nullptr, page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  next_madvise(page, page_bytes(), MADV_WIPEONFORK);
  own_header_address = static_cast<std::atomic<Header*>*>(page);
  return true;
}

bool is_shared_page(Page page) { return sharing.file.bits().is_set(page); }

// Calls act(from, upto) for each maximal range of pages whose bit equals `shared`, until a call returns false. Returns
// whether none did.
template <typename F>
bool for_each_stretch(PageRange pages, bool shared, F act) {
  for (Page from = pages.from; from < pages.upto;) {
    Page upto = from + 1;
    while (upto < pages.upto && is_shared_page(upto) == is_shared_page(from)) ++upto;
    if (is_shared_page(from) == shared && !act(from, upto)) return false;
    from = upto;
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

void free_file_pages(Page from, Page upto) {
  fallocate(sharing.file.descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, file_offset_of(from),
            static_cast<off_t>(bytes_of_pages(from, upto)));
}

bool can_write_file() {
  rlimit limit{};
  return sharing.file.has_own_descriptor() && getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= file_bytes;
}

// Calls act(begin, end) for pieces of a stretch, each at most a huge page, so that only one piece of the moving memory
// exists twice at a time. Returns false if a call did.
template <typename F>
bool for_each_piece(Page from, Page upto, F act) {
  const auto piece = static_cast<Page>(huge_page_bytes >> page_shift());
  for (Page end; from < upto; from = end) {
    end = std::min(upto, (from / piece + 1) * piece);
    if (!act(from, end)) return false;
  }
  return true;
}

// Moves private pages into the file. Returns whether that succeeded. The kernel reads the content, by pwrite(), so
// memory that the program has made unreadable causes an error and not a signal.
bool share_piece(Page from, Page upto) {
  const std::size_t bytes = bytes_of_pages(from, upto);
  const int file = sharing.file.descriptor();
  if (!sharing.file.bits().make_accessible(upto) || !write_all(file, address_of(from), bytes, file_offset_of(from)) ||
      next_mmap(address_of(from), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED | MAP_POPULATE,
                file, file_offset_of(from)) == MAP_FAILED) {
    free_file_pages(from, upto);
    return false;
  }
  next_madvise(address_of(from), bytes, MADV_DONTFORK);
  sharing.file.bits().set(from, upto);
  sharing.moved_bytes.fetch_add(bytes, std::memory_order_relaxed);
  sharing.shared_pages += upto - from;
  sharing.shared_from = std::min(sharing.shared_from, from);
  sharing.shared_upto = std::max(sharing.shared_upto, upto);
  return true;
}

bool share_stretch(Page from, Page upto) {
  ++sharing.stretches;
  if (Header* mine = own_header()) ++mine->moves;
  return for_each_piece(from, upto, share_piece);
}

// Waits until no peer copies from this heap (`kind` is readers) or to it (writers). Returns false if a peer has not
// finished after `patience_ns`, for example because it has been stopped.
bool wait_until_no_peer_copies(std::atomic<std::uint32_t> Slot::* kind, std::int64_t patience_ns) {
  const std::int64_t limit = now_ns(CLOCK_MONOTONIC) + patience_ns;
  const std::uint32_t taken = std::min(sharing.file.header()->slots.load(), max_slots);
  for (std::uint32_t slot = 0; slot < taken; ++slot)
    while ((sharing.file.slots()[slot].*kind).load() != 0) {
      if (now_ns(CLOCK_MONOTONIC) > limit) return false;
      sched_yield();
    }
  return true;
}

// While a PageMoveGuard exists, peers do not begin to copy from or to this heap, and this thread's signal handlers do
// not run.
class PageMoveGuard {
 public:
  PageMoveGuard() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
    sharing.file.header()->moving.store(1);
  }
  ~PageMoveGuard() {
    sharing.file.header()->moving.store(0);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  PageMoveGuard(const PageMoveGuard&) = delete;
  PageMoveGuard& operator=(const PageMoveGuard&) = delete;
  // Returns whether no peer writes to this heap any more.
  bool is_safe() const { return wait_until_no_peer_copies(&Slot::writers, share_patience_ns); }

 private:
  sigset_t before_;
};

bool map_anonymous(Page from, Page upto) {
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  forget_huge_pages(address_of(from), bytes_of_pages(from, upto));
  return next_mmap(address_of(from), bytes_of_pages(from, upto), PROT_READ | PROT_WRITE, flags, -1, 0) != MAP_FAILED;
}

// Replaces a range of shared pages, to which nobody writes, by private memory with the same content.
void copy_back(Page from, Page upto) {
  const std::size_t bytes = bytes_of_pages(from, upto);
  char* at = address_of(from);
  if (sharing.file.has_own_descriptor()) {
    if (map_anonymous(from, upto)) read_all(sharing.file.descriptor(), at, bytes, file_offset_of(from));
    return;
  }
  void* content = next_mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (content == MAP_FAILED) return;
  std::memcpy(content, at, bytes);
  if (map_anonymous(from, upto)) std::memcpy(at, content, bytes);
  next_munmap(content, bytes);
}

// Replaces a range of shared pages, to which threads or peers may be writing, by a private mapping of the same pages of
// the file: mmap() changes the mapping atomically, and the kernel copies a page when it is next written.
void copy_on_write(Page from, Page upto) {
  next_mmap(address_of(from), bytes_of_pages(from, upto), PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, sharing.file.descriptor(), file_offset_of(from));
  for (Page page = from; page < upto; ++page) sharing.stale.set(page);
}

void unshare_stretch(Page from, Page upto, PageContent content, MemoryUsers users) {
  sharing.file.bits().clear(from, upto);
  if (content == PageContent::dropped) {  // no message is in flight in these pages
    map_anonymous(from, upto);
    free_file_pages(from, upto);
  } else if (!sharing.file.has_own_descriptor()) {
    copy_back(from, upto);
  } else if (wait_until_no_peer_copies(&Slot::writers, unshare_patience_ns) && users == MemoryUsers::none &&
             wait_until_no_peer_copies(&Slot::readers, unshare_patience_ns)) {
    for_each_piece(from, upto, [](Page begin, Page end) {
      copy_back(begin, end);
      free_file_pages(begin, end);
      return true;
    });
  } else {
    copy_on_write(from, upto);
  }
  sharing.shared_pages -= upto - from;
  if (sharing.stretches) --sharing.stretches;
}

void unshare_pages(PageRange pages, PageContent content) {
  if (!sharing.shared_pages) return;
  pages = {std::max(pages.from, sharing.shared_from), std::min(pages.upto, sharing.shared_upto)};
  if (pages.is_empty()) return;
  {
    const PageMoveGuard moving;
    const MemoryUsers users = content == PageContent::retained ? find_other_users() : MemoryUsers::none;
    for_each_stretch(pages, true, [=](Page from, Page upto) {
      unshare_stretch(from, upto, content, users);
      return true;
    });
  }
  if (sharing.shared_pages) return;
  sharing.stretches = 0;
  sharing.shared_from = ~Page{0};
  sharing.shared_upto = 0;
}

// Returns whether a message has passed through the first of `pages` before. Records that a message has passed now.
bool has_seen_message(PageRange pages) {
  if (settings().share_first) return true;
  const bool seen = sharing.seen.is_set(pages.from);
  return (seen || sharing.seen.set(pages.from)) && seen;
}

bool contains_special_page(PageRange pages) {
  for (Page page = pages.from; page < pages.upto; ++page)
    if (sharing.special.is_set(page) || sharing.stale.is_set(page)) return true;
  return false;
}

bool contains_window_page(PageRange pages) {
  for (Page page = pages.from; page < pages.upto; ++page)
    if (sharing.windows.is_set(page)) return true;
  return false;
}

// Returns whether more pages may move into the file, by the limit that moved_in_advance describes.
bool may_share_more_pages() {
  const Header* mine = own_header();
  if (!mine || settings().share_first) return mine != nullptr;
  const std::uint64_t moved = sharing.moved_bytes.load(std::memory_order_relaxed);
  if (moved < sharing.allowed_bytes.load(std::memory_order_relaxed)) return true;
  std::uint64_t copied = 0;
  const std::uint32_t taken = std::min(mine->slots.load(), max_slots);
  for (std::uint32_t slot = 0; slot < taken; ++slot)
    copied += sharing.file.slots()[slot].copied_bytes.load(std::memory_order_relaxed);
  const std::uint64_t allowed = moved_in_advance + copied / copied_per_moved;
  sharing.allowed_bytes.store(allowed, std::memory_order_relaxed);
  return moved < allowed;
}

// Shares those pages of [from, from + bytes) that are safe to share. Returns false if no page could move into the file;
// true also if this message is the first one through the memory.
bool share_locked(const char* from, std::size_t bytes, bool is_message) {
  const PageRange all = pages_overlapping(from, bytes);
  if (all.is_empty() || all.upto > mapped_heap_pages() || !own_header()) return false;
  if (sharing.stretches >= max_stretches || contains_special_page(all) || !can_write_file()) return false;
  if (!has_seen_message(all)) return true;
  const PageMoveGuard moving;
  if (!moving.is_safe()) return false;
  const MemoryUsers users = find_other_users();
  if (users == MemoryUsers::unknown || (users == MemoryUsers::threads && (!is_message || contains_window_page(all))))
    return false;
  const std::size_t before = sharing.shared_pages;
  for_each_stretch(users == MemoryUsers::none ? all : pages_filled_by(from, bytes), false, share_stretch);
  return sharing.shared_pages != before;
}

}  // namespace

const char* open_sharing() {
  if (sharing.file.is_open()) return nullptr;
  if (!map_header_address()) return "address space is limited (ulimit -v)";
  if (const char* problem = sharing.file.open()) return problem;
  own_header_address->store(sharing.file.header(), std::memory_order_release);
  return nullptr;
}

bool is_partly_shared(const void* from, std::size_t bytes) {
  return sharing.shared_pages &&
         !for_each_stretch(pages_overlapping(from, bytes), true, [](Page, Page) { return false; });
}

char* own_bounce_buffer() { return sharing.file.bounce(); }

int own_heap_file() { return sharing.file.has_own_descriptor() ? sharing.file.descriptor() : -1; }

bool is_shared(const void* from, std::size_t bytes) {
  const PageRange pages = pages_overlapping(from, bytes);
  return !pages.is_empty() && own_header() && sharing.file.bits().are_set(pages.from, pages.upto);
}

void add_window(const void* from, std::size_t bytes) {
  const PageRange pages = pages_overlapping(from, bytes);
  for (Page page = pages.from; page < pages.upto; ++page) sharing.windows.set(page);
}

void share_message(const char* from, std::size_t bytes, bool is_message) {
  if (bytes < min_shared_message || is_shared(from, bytes) || !may_share_more_pages()) return;
  const std::int64_t start = now_ns(CLOCK_MONOTONIC);
  std::int64_t& not_before_ns = sharing.not_before_ns[is_message ? 0 : 1];
  if (start < not_before_ns || !try_to_lock_heap()) return;
  const int error = errno;
  const bool could = share_locked(from, bytes, is_message);
  const std::int64_t end = now_ns(CLOCK_MONOTONIC);
  not_before_ns = could ? 0 : end + (end - start) * inverse_time_share;
  errno = error;
  unlock_heap();
}

void handle_share_hint() {
  Header* mine = own_header();
  if (!mine || mine->share_hint.state.load(std::memory_order_acquire) != CopyRequest::posted) return;
  const auto from = mine->share_hint.from;
  const auto bytes = mine->share_hint.bytes;
  mine->share_hint.state.store(CopyRequest::none, std::memory_order_release);
  if (in_heap(from)) share_message(reinterpret_cast<const char*>(from), bytes, false);
}

void unshare(const void* from, std::size_t bytes, PageContent content) {
  const int error = errno;
  const PageRange pages = pages_overlapping(from, bytes);
  unshare_pages(pages, content);
  if (content == PageContent::dropped)
    for (Page page = pages.from; page < pages.upto; ++page)
      if (sharing.stale.is_set(page)) map_anonymous(page, page + 1);  // or else the file's content would reappear
  errno = error;
}

void keep_private(const void* from, std::size_t bytes) {
  const PageRange pages = pages_overlapping(from, bytes);
  unshare(from, bytes, PageContent::retained);
  for (Page page = pages.from; page < pages.upto; ++page) sharing.special.set(page);
}

void forget_special_pages(const void* from, std::size_t bytes) {
  const PageRange pages = pages_overlapping(from, bytes);
  sharing.special.clear(pages.from, pages.upto);
  sharing.windows.clear(pages.from, pages.upto);
}

bool prepare_pages_for_fork() {
  if (!sharing.shared_pages) return false;
  const PageRange all{sharing.shared_from, sharing.shared_upto};
  if (find_other_users() == MemoryUsers::none) {
    unshare_pages(all, PageContent::retained);
    return false;
  }
  sharing.file.bits().let_child_inherit(true);
  for_each_stretch(all, true, [](Page from, Page upto) {
    return next_madvise(address_of(from), bytes_of_pages(from, upto), MADV_DOFORK) == 0;
  });
  return true;
}

void unshare_all() { unshare_pages({sharing.shared_from, sharing.shared_upto}, PageContent::retained); }

void end_page_inheritance() {
  for_each_stretch({sharing.shared_from, sharing.shared_upto}, true, [](Page from, Page upto) {
    return next_madvise(address_of(from), bytes_of_pages(from, upto), MADV_DONTFORK) == 0;
  });
  sharing.file.bits().let_child_inherit(false);
}

void copy_inherited_pages() {
  for_each_stretch({sharing.shared_from, sharing.shared_upto}, true, [](Page from, Page upto) {
    copy_back(from, upto);
    return true;
  });
  sharing.file.bits().unmap();
}

void reset_sharing() {
  if (own_header_address) own_header_address->store(nullptr);
  if (sharing.file.has_own_descriptor()) close(sharing.file.descriptor());
  sharing.file.forget();
  sharing.shared_pages = sharing.stretches = 0;
  sharing.shared_from = ~Page{0};
  sharing.shared_upto = 0;
  sharing.not_before_ns[0] = sharing.not_before_ns[1] = 0;
  sharing.moved_bytes = sharing.allowed_bytes = 0;
}

SharingFacts sharing_facts() {
  const Header* mine = own_header();
  return {sharing.shared_pages << page_shift(), mine ? mine->moves.load() : 0};
}

}  // namespace nearfield::heap

#include "preload/heap/region.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <new>

#include "base/linux.h"
#include "preload/heap/copy_service.hpp"
#include "preload/heap/next_calls.hpp"

namespace nearfield::heap {
namespace {

constexpr std::size_t min_growth_bytes = std::size_t{2} << 20, max_growth_bytes = std::size_t{256} << 20;
constexpr std::size_t table_growth_bytes = std::size_t{1} << 20;
constexpr std::uintptr_t span_table_address = heap_begin + heap_address_bytes;
constexpr int high_descriptor = 900;  // programs use lower descriptors

// Moves the descriptor to a number beyond the small ones that programs may expect. Returns the new number; `file` if
// that fails.
int move_to_high_descriptor(int file) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const int from = files.rlim_cur > 2 * high_descriptor ? high_descriptor : static_cast<int>(files.rlim_cur / 2);
  const int moved = fcntl(file, F_DUPFD_CLOEXEC, from);
  if (moved < 0) return file;
  close(file);
  return moved;
}

int create_file() {
  const int file = memfd_create("nearfield-heap", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return -1;
  // The seals fix the size of the file, so that no reader gets SIGBUS because another process has truncated the file.
  if (fchmod(file, 0600) != 0 || ftruncate(file, file_bytes) != 0 ||
      fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    close(file);
    return -1;
  }
  return move_to_high_descriptor(file);
}

bool file_size_is_limited() {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < file_bytes;  // ftruncate would end in SIGXFSZ
}

void create_and_lock_alive_mutex(pthread_mutex_t& mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  pthread_mutex_lock(&mutex);
}

// Maps private memory at `at` unless something is mapped there. Returns whether that succeeded. A kernel before 4.17
// ignores MAP_FIXED_NOREPLACE and may choose another address.
bool map_private_memory(std::uintptr_t at, std::size_t bytes) {
  void* wanted_address = reinterpret_cast<void*>(at);
  void* mapped = next_mmap(wanted_address, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (mapped == wanted_address) return true;
  if (mapped != MAP_FAILED) next_munmap(mapped, bytes);
  return false;
}

// Maps a part of the file at `at`, or at any address if `at` is nullptr. Returns nullptr on failure. A forked child
// does not inherit the mapping.
char* map_shared(int file, void* at, std::size_t bytes, std::size_t offset) {
  void* mapped = map_on_demand(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), file,
                               static_cast<off_t>(offset));
  if (mapped == MAP_FAILED) return nullptr;
  next_madvise(mapped, bytes, MADV_DONTFORK);
  return static_cast<char*>(mapped);
}

}  // namespace

std::size_t page_bytes() {
  static const std::size_t bytes = getauxval(AT_PAGESZ);
  return bytes;
}

int page_shift() {
  static const int shift = std::countr_zero(page_bytes());
  return shift;
}

bool HeapFileHeader::has_expected_magic() const { return std::memcmp(magic, expected_magic, sizeof magic) == 0; }

bool HeapFileHeader::has_owner_died() const {
  // The first word of a pthread mutex is its futex; the kernel's robust lists require that.
  const auto* futex_word = reinterpret_cast<const volatile std::uint32_t*>(&alive_mutex);
  return (*futex_word & FUTEX_OWNER_DIED) != 0 || (*futex_word & FUTEX_TID_MASK) == 0;
}

const char* HeapRegion::open() {
  constexpr const char* problem = "its addresses are taken, or address space is limited (ulimit -v)";
  if (!map_private_memory(heap_begin, page_bytes())) return problem;
  if (!extend_table(1)) {
    next_munmap(reinterpret_cast<void*>(heap_begin), page_bytes());
    return problem;
  }
  span_table_ = reinterpret_cast<Spans::SpanTableEntry*>(span_table_address);
  num_usable_pages_ = 1;
  return nullptr;
}

bool HeapRegion::extend_table(Spans::Page pages) {
  const std::size_t needed = (std::size_t{pages} * sizeof(Spans::SpanTableEntry) + table_growth_bytes - 1) /
                             table_growth_bytes * table_growth_bytes;
  if (needed <= table_bytes_) return true;
  if (!map_private_memory(span_table_address + table_bytes_, needed - table_bytes_)) return false;
  table_bytes_ = needed;
  return true;
}

Spans::Page HeapRegion::grow(Spans::Page pages) {
  const std::size_t old_bytes = std::size_t{num_usable_pages_} << page_shift();
  std::size_t growth_bytes = old_bytes / 8;
  if (growth_bytes < min_growth_bytes) growth_bytes = min_growth_bytes;
  if (growth_bytes > max_growth_bytes) growth_bytes = max_growth_bytes;
  if (const std::size_t bytes = std::size_t{pages} << page_shift(); growth_bytes < bytes) growth_bytes = bytes;
  // to a huge page boundary
  growth_bytes = (old_bytes + growth_bytes + min_growth_bytes - 1) / min_growth_bytes * min_growth_bytes - old_bytes;
  if (growth_bytes > heap_address_bytes - old_bytes) return 0;
  const auto num_new_pages = static_cast<Spans::Page>(growth_bytes >> page_shift());
  if (!extend_table(num_usable_pages_ + num_new_pages) || !map_private_memory(heap_begin + old_bytes, growth_bytes))
    return 0;
  num_usable_pages_ += num_new_pages;
  return num_new_pages;
}

const char* HeapFile::open() {
  if (file_size_is_limited()) return "file sizes are limited (ulimit -f)";
  const int file = create_file();
  if (file < 0) return "the kernel gives no memfd";
  struct stat status{};
  fstat(file, &status);
  char* slots =
      shared_page_bits_.map(file, bits_offset, true) ? map_shared(file, nullptr, slots_bytes, slots_offset) : nullptr;
  char* at = slots ? map_shared(file, reinterpret_cast<void*>(heap_begin), page_bytes(), 0) : nullptr;
  if (!at) {
    shared_page_bits_.unmap();
    if (slots) next_munmap(slots, slots_bytes);
    close(file);
    return "address space is limited (ulimit -v)";
  }
  auto* header = new (at) HeapFileHeader{};
  header->owner_descriptor = file;
  header->device = device_ = status.st_dev;
  header->inode = inode_ = status.st_ino;
  create_and_lock_alive_mutex(header->alive_mutex);
  std::memcpy(header->magic, HeapFileHeader::expected_magic, sizeof header->magic);
  descriptor_ = file;
  header_ = header;
  slots_ = reinterpret_cast<PeerSlot*>(slots);
  if (serves_copies()) bounce_buffer_ = map_shared(file, nullptr, bounce_bytes, bounce_offset);
  return nullptr;
}

bool HeapFile::has_own_descriptor() const {
  struct stat status{};
  return descriptor_ >= 0 && fstat(descriptor_, &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
}

void HeapFile::forget_mapping() {
  descriptor_ = -1;
  header_ = nullptr;
  slots_ = nullptr;
  bounce_buffer_ = nullptr;
  shared_page_bits_.forget_mapping();
}

}  // namespace nearfield::heap

#include "heap/region.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <new>

#include "base/linux.h"

namespace nearfield::heap {
namespace {

constexpr std::size_t least_step = std::size_t{4} << 20, most_step = std::size_t{256} << 20;
constexpr int high_descriptor = 900;  // programs number their own files from below
constexpr std::int64_t writers_limit_ns = 2'000'000'000;

// Returns a descriptor beyond the small numbers that programs count on.
int moved_up(int file) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const int from = files.rlim_cur > 2 * high_descriptor ? high_descriptor : static_cast<int>(files.rlim_cur / 2);
  const int moved = fcntl(file, F_DUPFD_CLOEXEC, from);
  if (moved < 0) return file;
  close(file);
  return moved;
}

// Calls mremap without libc: UCX's hooks on it forget the new address (ucm_orig_mremap has four parameters).
void* remap(void* from, std::size_t had, std::size_t bytes, int flags, void* to = nullptr) {
  return reinterpret_cast<void*>(syscall(SYS_mremap, from, had, bytes, flags, to));
}

int new_file() {
  const int file = memfd_create("nearfield-heap", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return -1;
  // Makes a file that cannot shrink, so that no reader meets SIGBUS because another process cut it.
  if (fchmod(file, 0600) != 0 || ftruncate(file, region_span) != 0 ||
      fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    close(file);
    return -1;
  }
  return moved_up(file);
}

bool file_size_is_limited() {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < region_span;  // ftruncate would end in SIGXFSZ
}

void hold_alive(pthread_mutex_t& alive) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&alive, &attributes);
  pthread_mutexattr_destroy(&attributes);
  pthread_mutex_lock(&alive);
}

}  // namespace

bool Header::valid(int number) const {
  return std::memcmp(magic, expected, sizeof magic) == 0 && region == number && retired.load() == 0;
}

bool Header::owner_died() const {
  // The first word of a pthread mutex is its futex; the kernel's robust lists need it there.
  const auto* word = reinterpret_cast<const volatile std::uint32_t*>(&alive);
  return (*word & FUTEX_OWNER_DIED) != 0 || (*word & FUTEX_TID_MASK) == 0;
}

std::size_t Region::page_bytes() {
  static const std::size_t bytes = getauxval(AT_PAGESZ);
  return bytes;
}

const char* Region::open(int number) {
  if (file_size_is_limited()) return "file sizes are limited (ulimit -f)";
  const int file = new_file();
  if (file < 0) return "the kernel gives no memfd";
  struct stat status{};
  fstat(file, &status);
  auto* wanted = reinterpret_cast<void*>(address_of(number));
  void* at =
      mmap(wanted, page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, file, 0);
  if (at != wanted) {  // also where a kernel before 4.17 does not know the flag
    if (at != MAP_FAILED) munmap(at, page_bytes());
    close(file);
    return "its addresses are taken, or address space is limited (ulimit -v)";
  }
  // A fork without pthread_atfork's handlers makes a child without the region, not one that shares it.
  madvise(at, page_bytes(), MADV_DONTFORK);
  auto* header = new (at) Header{};
  header->file = file;
  header->region = number;
  header->device = status.st_dev;
  header->inode = status.st_ino;
  hold_alive(header->alive);
  std::memcpy(header->magic, Header::expected, sizeof header->magic);
  header->mapped.store(page_bytes());
  number_ = number;
  file_ = file;
  usable_ = page_bytes();
  return nullptr;
}

std::size_t Region::grow(std::size_t bytes) {
  std::size_t step = usable_ / 8;
  if (step < least_step) step = least_step;
  if (step > most_step) step = most_step;
  if (step < bytes) step = bytes;
  step = (usable_ + step + least_step - 1) / least_step * least_step - usable_;  // ends where a huge page ends
  if (usable_ + step > region_span) return 0;
  // The last page's mapping is made longer; it keeps what was set for it, and needs no descriptor.
  const std::size_t page = page_bytes();
  char* last = reinterpret_cast<char*>(address_of(number_)) + usable_ - page;
  if (remap(last, page, page + step, 0) == MAP_FAILED) return 0;
  usable_ += step;
  header()->mapped.store(usable_, std::memory_order_release);
  return step;
}

bool Region::file_is_ours() const {
  struct stat status{};
  return fstat(file_, &status) == 0 && status.st_dev == header()->device && status.st_ino == header()->inode;
}

// A peer that died while it was writing stays in the count, so there is a limit.
void Region::wait_for_writers() const {
  const std::int64_t limit = now_ns(CLOCK_MONOTONIC) + writers_limit_ns;
  while (header()->writers.load() != 0 && now_ns(CLOCK_MONOTONIC) < limit) sched_yield();
}

bool Region::retire() {
  if (!file_is_ours()) return false;
  header()->retired.store(1);
  wait_for_writers();
  auto* at = reinterpret_cast<void*>(address_of(number_));
  if (mmap(at, usable_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, file_, 0) == MAP_FAILED) {
    header()->retired.store(0);
    return false;
  }
  close(file_);
  return true;
}

void Region::inherit(bool yes) const {
  madvise(reinterpret_cast<void*>(address_of(number_)), usable_, yes ? MADV_DOFORK : MADV_DONTFORK);
}

void Region::copy(const char* end) const {
  auto* at = reinterpret_cast<char*>(address_of(number_));
  void* fresh = mmap(nullptr, usable_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (fresh == MAP_FAILED) {
    munmap(at, usable_);
    return;
  }
  const auto content = static_cast<std::size_t>(end > at ? end - at : 0);
  const bool is_ours = file_is_ours();
  for (std::size_t from = 0; from < content;) {
    std::size_t upto = content;
    if (is_ours) {  // holes stay holes: reading them would give them pages, for the parent too
      const off_t data = lseek(file_, static_cast<off_t>(from), SEEK_DATA);
      if (data < 0 || static_cast<std::size_t>(data) >= content) break;
      const auto hole = static_cast<std::size_t>(lseek(file_, data, SEEK_HOLE));
      from = static_cast<std::size_t>(data);
      if (hole < content) upto = hole;
    }
    std::memcpy(static_cast<char*>(fresh) + from, at + from, upto - from);
    from = upto;
  }
  static_cast<Header*>(fresh)->retired.store(1);  // what is here now is nobody's file
  if (is_ours) close(file_);
  if (remap(fresh, usable_, usable_, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED) munmap(at, usable_);
}

}  // namespace nearfield::heap

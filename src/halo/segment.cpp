#include "halo/segment.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <utility>

#include "base/linux.h"
#include "halo/error.hpp"

namespace nearfield::halo {
namespace {

const std::string shm_size_hint = "(in containers it is often 64 MB: --shm-size)";

std::size_t round_up_to_multiple(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

std::string format_mebibytes(std::size_t bytes) {
  char text[40];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

std::string make_random_shm_path() {
  std::random_device random;
  char text[64];
  std::snprintf(text, sizeof text, "/dev/shm/nearfield-%08x%08x%08x%08x", random(), random(), random(), random());
  return text;
}

std::size_t read_number_after_key(const char* file, const char* key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.rfind(key, 0) == 0) return std::strtoull(line.c_str() + std::strlen(key), nullptr, 10);
  return 0;
}

bool has_transparent_huge_pages() {
  std::ifstream in("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  std::string text;
  std::getline(in, text);
  return text.find("[never]") == std::string::npos && text.find("[deny]") == std::string::npos && !text.empty();
}

// Reserves a range of the file by posix_fallocate. Returns 0 or an error code as in errno. Without the reservation, the
// first touch of a page would kill the process by SIGBUS if /dev/shm is full. If the file system does not support
// reservations, returns 0; pages are then allocated at the first touch.
int reserve_file_range(int file, std::size_t begin, std::size_t end) {
  if (end <= begin) return 0;
  const int problem = posix_fallocate(file, static_cast<off_t>(begin), static_cast<off_t>(end - begin));
  return problem == EOPNOTSUPP || problem == EINVAL ? 0 : problem;
}

// Resizes a file. Returns the file descriptor; -1 if that fails or if `file` is -1.
int resize_or_close(int file, std::size_t bytes) {
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) == 0) return file;
  close(file);
  return -1;
}

// Returns the byte range [first, last) of the pages that this rank touches first. Both borders of its part are rounded
// to the nearest page boundary. `bytes` is the size of the segment, `whole` the mapped size.
std::pair<std::size_t, std::size_t> first_touched_pages(std::size_t begin, std::size_t end, std::size_t bytes,
                                                        std::size_t page, std::size_t whole) {
  const auto edge = [&](std::size_t border) {
    return border == bytes ? whole : std::min((border + page / 2) / page * page, whole);
  };
  return {edge(begin), edge(end)};
}

}  // namespace

Segment::Segment(const Node& node, std::size_t bytes, std::size_t part_begin, std::size_t part_end,
                 SegmentBacking backing)
    : bytes_(bytes) {
  std::string problem;
  auto code = ErrorCode::memory;
  try {
    if (backing == SegmentBacking::window)
      allocate_window(node, part_begin, part_end);
    else
      allocate_memfd_or_shm_file(node, part_begin, part_end);
  } catch (const Error& error) {
    problem = error.what();
    code = error.code;
  }
  try {
    throw_collectively(node.comm, problem, code);  // throws if another node has failed
  } catch (...) {
    free_memory();
    throw;
  }
}

Segment::~Segment() { free_memory(); }

void Segment::free_memory() {
  if (window_ != MPI_WIN_NULL && !mpi_has_ended()) {
    MPI_Win_unlock_all(window_);
    MPI_Win_free(&window_);
  }
  if (mapped_bytes_ && data_) munmap(data_, mapped_bytes_);
  if (fd_ >= 0) close(fd_);
}

void Segment::allocate_memfd_or_shm_file(const Node& node, std::size_t begin, std::size_t end) {
  mapped_bytes_ =
      round_up_to_multiple(std::max<std::size_t>(bytes_, 1), bytes_ >= huge_page_bytes ? huge_page_bytes : 4096);
  std::string problem;
  if (const auto available = read_number_after_key("/proc/meminfo", "MemAvailable:") * 1024;
      available && available < bytes_)
    problem = "a field needs " + format_mebibytes(bytes_) + " on this node, but " + format_mebibytes(available) +
              " are available: make the grid smaller or use more nodes";
  throw_collectively(node.node_comm, problem, ErrorCode::memory);
  if (bytes_ >= huge_page_bytes && try_hugetlb(node)) return prefault_mapped(begin, end);
  open_memfd_or_shm_file(node);
  if (!map_aligned(fd_)) problem = std::string("cannot map shared memory: ") + std::strerror(errno);
  throw_collectively(node.node_comm, problem, ErrorCode::memory);
  prefault_and_collapse(node, begin, end);
}

// Tries memory of huge pages that an administrator has reserved (hugetlb). Only mmap shows whether enough of them are
// free. Returns whether it succeeded, the same on all ranks of the node.
bool Segment::try_hugetlb(const Node& node) {
  int is_usable = read_number_after_key("/proc/meminfo", "HugePages_Free:") * huge_page_bytes >= mapped_bytes_ &&
                  read_number_after_key("/proc/meminfo", "Hugepagesize:") * 1024 == huge_page_bytes;
  MPI_Bcast(&is_usable, 1, MPI_INT, 0, node.node_comm);
  if (!is_usable) return false;
  try {
    open_on_all_ranks(node, "",
                      node.local_rank == 0
                          ? resize_or_close(memfd_create("nearfield", MFD_CLOEXEC | MFD_HUGETLB), mapped_bytes_)
                          : -1);
  } catch (const Error&) {
    return false;
  }
  is_usable = map_aligned(fd_);
  MPI_Allreduce(MPI_IN_PLACE, &is_usable, 1, MPI_INT, MPI_MIN, node.node_comm);
  if (!is_usable) {
    if (data_) munmap(data_, mapped_bytes_);
    close(fd_);
    data_ = nullptr;
    fd_ = -1;
    return false;
  }
  memory_description_ = "hugetlb memory";
  page_description_ = "huge pages that were reserved";
  page_bytes_ = huge_page_bytes;
  return true;
}

// Opens a memfd, which has no name and is limited by memory only. If ranks cannot open the memfd of local rank 0
// (separate containers or process namespaces), opens a file in /dev/shm, which is unlinked as soon as all ranks have
// opened it.
void Segment::open_memfd_or_shm_file(const Node& node) {
  try {
    open_on_all_ranks(
        node, "", node.local_rank == 0 ? resize_or_close(memfd_create("nearfield", MFD_CLOEXEC), mapped_bytes_) : -1);
    memory_description_ = "a memfd";
    return;
  } catch (const Error&) {
  }
  int file = -1;
  std::string name;
  if (node.local_rank == 0) {
    name = make_random_shm_path();
    file = resize_or_close(open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600), mapped_bytes_);
  }
  try {
    open_on_all_ranks(node, name, file);
  } catch (...) {
    if (node.local_rank == 0) unlink(name.c_str());
    throw;
  }
  if (node.local_rank == 0) unlink(name.c_str());
  memory_description_ = "an unlinked file of /dev/shm";
}

// Opens the file of local rank 0 on all ranks of the node: by `path`, or through /proc/PID/fd if `path` is empty. If
// any rank fails, throws Error(unavailable) on all ranks.
void Segment::open_on_all_ranks(const Node& node, const std::string& path, int file) {
  struct SegmentHandle {
    char path[64] = {};
    unsigned long long device = 0, inode = 0;
    int is_created = 0;
  } handle;
  if (node.local_rank == 0) {
    struct stat status{};
    handle.is_created = file >= 0 && fstat(file, &status) == 0;
    handle.device = status.st_dev;
    handle.inode = status.st_ino;
    if (path.empty())
      std::snprintf(handle.path, sizeof handle.path, "/proc/%ld/fd/%d", static_cast<long>(getpid()), file);
    else
      path.copy(handle.path, sizeof handle.path - 1);
  }
  MPI_Bcast(&handle, sizeof handle, MPI_BYTE, 0, node.node_comm);
  std::string problem;
  if (node.local_rank != 0) {
    file = handle.is_created ? open(handle.path, O_RDWR | O_CLOEXEC) : -1;
    struct stat status{};
    // In another process namespace, the process id may denote another process, with another file.
    if (file >= 0 && (fstat(file, &status) != 0 || status.st_dev != handle.device || status.st_ino != handle.inode)) {
      close(file);
      file = -1;
    }
  }
  if (file < 0) problem = "ranks of this node cannot open each other's shared memory";
  try {
    throw_collectively(node.node_comm, problem, ErrorCode::unavailable);
  } catch (...) {
    if (file >= 0) close(file);
    throw;
  }
  fd_ = file;
}

// Maps the file, at an address that is aligned to huge pages if the size is at least one. Returns whether it succeeded.
bool Segment::map_aligned(int file) {
  const std::size_t alignment = mapped_bytes_ >= huge_page_bytes ? huge_page_bytes : 4096;
  void* room = mmap(nullptr, mapped_bytes_ + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return false;
  auto* aligned = reinterpret_cast<std::byte*>(round_up_to_multiple(reinterpret_cast<std::uintptr_t>(room), alignment));
  auto* end = static_cast<std::byte*>(room) + mapped_bytes_ + alignment;
  void* at = mmap(aligned, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
  if (at == MAP_FAILED) {
    munmap(room, mapped_bytes_ + alignment);
    return false;
  }
  if (aligned > room) munmap(room, static_cast<std::size_t>(aligned - static_cast<std::byte*>(room)));
  if (end > aligned + mapped_bytes_)
    munmap(aligned + mapped_bytes_, static_cast<std::size_t>(end - aligned - mapped_bytes_));
  data_ = aligned;
  return true;
}

// Touches the pages of this rank first. The pages must have been reserved, or SIGBUS may kill the process.
void Segment::prefault_mapped(std::size_t begin, std::size_t end) {
  const auto [first, last] =
      first_touched_pages(begin, end, bytes_, bytes_ >= huge_page_bytes ? huge_page_bytes : 4096, mapped_bytes_);
  if (last > first) madvise(data_ + first, last - first, MADV_POPULATE_WRITE);  // else touched at first use
}

// Touches the pages of this rank first; called by all ranks at the same time. To get huge pages, touches the first base
// page of each and calls madvise(MADV_COLLAPSE) (Linux 6.1), which works even if the system disables transparent huge
// pages. Only one rank collapses each huge page, since concurrent attempts disturb each other.
void Segment::prefault_and_collapse(const Node& node, std::size_t begin, std::size_t end) {
  const std::size_t page = bytes_ >= huge_page_bytes ? huge_page_bytes : 4096;
  const auto [first, last] = first_touched_pages(begin, end, bytes_, page, mapped_bytes_);
  int problem = 0;
  std::string refused;
  std::size_t collapsed = 0;
  if (page == huge_page_bytes) madvise(data_, mapped_bytes_, MADV_HUGEPAGE);
  for (auto at = first; page == huge_page_bytes && at < last && !problem && refused.empty(); at += huge_page_bytes) {
    problem = reserve_file_range(fd_, at, at + 4096);
    if (problem) break;
    *reinterpret_cast<volatile std::byte*>(data_ + at) = std::byte{0};
    for (int attempt = 0; attempt < 5; ++attempt)
      if (madvise(data_ + at, huge_page_bytes, MADV_COLLAPSE) == 0) {
        collapsed += huge_page_bytes;
        break;
      } else if (errno != EAGAIN) {
        refused = std::strerror(errno);
        break;
      }
  }
  if (!problem && first + collapsed < last) problem = reserve_file_range(fd_, first + collapsed, last);
  std::string text;
  if (problem)
    text = "a field needs " + format_mebibytes(bytes_) + " of shared memory on this node: " + std::strerror(problem);
  if (problem && memory_description_.find("/dev/shm") != std::string::npos) text += " in /dev/shm " + shm_size_hint;
  throw_collectively(node.node_comm, text, ErrorCode::memory);
  prefault_mapped(begin, end);
  unsigned long total = collapsed;
  MPI_Allreduce(MPI_IN_PLACE, &total, 1, MPI_UNSIGNED_LONG, MPI_SUM, node.node_comm);
  page_bytes_ = total || has_transparent_huge_pages() ? page : 4096;
  if (page != huge_page_bytes)
    page_description_ = "4 KiB pages, as it is smaller than a huge one";
  else if (total == mapped_bytes_)
    page_description_ = "huge pages (collapsed)";
  else if (has_transparent_huge_pages())
    page_description_ = "huge pages where the kernel gives them (transparent)";
  else
    page_description_ =
        "4 KiB pages: the kernel refuses to collapse them (" + (refused.empty() ? "another rank's" : refused) + ")";
}

void Segment::allocate_window(const Node& node, std::size_t begin, std::size_t end) {
  struct statvfs room{};
  const bool is_shm_too_small = statvfs("/dev/shm", &room) == 0 && room.f_bavail * room.f_frsize < bytes_ + 8192;
  std::string problem;
  if (is_shm_too_small)
    problem = "a field needs " + format_mebibytes(bytes_) + ", but /dev/shm has " +
              format_mebibytes(room.f_bavail * room.f_frsize) + " " + shm_size_hint;
  throw_collectively(node.node_comm, problem, ErrorCode::memory);
  void* base = nullptr;
  const auto window_bytes = static_cast<MPI_Aint>(node.local_rank == 0 ? std::max<std::size_t>(bytes_, 1) + 4096 : 0);
  MPI_Win_allocate_shared(window_bytes, 1, MPI_INFO_NULL, node.node_comm, &base, &window_);
  MPI_Aint bytes = 0;
  int unit = 0;
  MPI_Win_shared_query(window_, 0, &bytes, &unit, &base);
  MPI_Win_lock_all(MPI_MODE_NOCHECK, window_);
  data_ = static_cast<std::byte*>(base);  // has the same offset in its page on all ranks
  data_ = reinterpret_cast<std::byte*>(round_up_to_multiple(reinterpret_cast<std::uintptr_t>(data_), 4096));
  const auto [first, last] = first_touched_pages(begin, end, bytes_, 4096, bytes_);
  if (last > first) std::memset(data_ + first, 0, last - first);
  MPI_Barrier(node.node_comm);
  memory_description_ = "a window of MPI_Win_allocate_shared";
  page_description_ = "pages as the MPI gives them";
}

std::string Segment::explain() const {
  return format_mebibytes(bytes_) + " in " + memory_description_ + ", " + page_description_;
}

std::size_t Segment::huge_page_backed_bytes() const {
  std::ifstream smaps("/proc/self/smaps");
  const auto begin_address = reinterpret_cast<std::uintptr_t>(data_);
  std::size_t bytes = 0;
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long from = 0, to = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2)
      inside = from < begin_address + bytes_ && to > begin_address;
    unsigned long amount = 0;
    for (const char* key : {"ShmemPmdMapped: %lu", "FilePmdMapped: %lu", "Shared_Hugetlb: %lu", "Private_Hugetlb: %lu"})
      if (inside && std::sscanf(line.c_str(), key, &amount) == 1) bytes += amount * 1024;
  }
  return bytes;
}

}  // namespace nearfield::halo

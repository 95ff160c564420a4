#include "halo/backing.hpp"

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

#include "base/linux.h"

namespace nearfield::halo {
namespace {

const std::string shm_size_hint = "(in containers it is often 64 MB: --shm-size)";

std::size_t round_up_to_multiple(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

std::size_t file_bytes_for(std::size_t bytes) {
  return round_up_to_multiple(std::max<std::size_t>(bytes, 1), page_bytes_for(bytes));
}

// Returns a number of /proc/meminfo; 0 if the key is missing.
std::size_t read_meminfo(const char* key) {
  std::ifstream in("/proc/meminfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind(key, 0) == 0) return std::strtoull(line.c_str() + std::strlen(key), nullptr, 10);
  return 0;
}

// ---- files that the ranks of a node open and map

// Resizes a file. Returns the file descriptor; -1 if that fails or if `file` is -1.
int resize_or_close(int file, std::size_t bytes) {
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) == 0) return file;
  close(file);
  return -1;
}

// Returns a descriptor of the file of local rank 0: opened by `path`, or through /proc/PID/fd if `path` is empty.
// `file` and `path` count on local rank 0 only, which keeps its descriptor. Returns -1 if that fails. Collective over
// the ranks of the node.
int open_file_of_first_rank(const Node& node, int file, const std::string& path) {
  struct SegmentHandle {
    char path[64] = {};
    unsigned long long device = 0, inode = 0;
    int is_created = 0;
  } handle;
  struct stat status{};
  if (node.local_rank == 0) {
    handle.is_created = file >= 0 && fstat(file, &status) == 0;
    handle.device = status.st_dev;
    handle.inode = status.st_ino;
    if (path.empty())
      std::snprintf(handle.path, sizeof handle.path, "/proc/%ld/fd/%d", static_cast<long>(getpid()), file);
    else
      path.copy(handle.path, sizeof handle.path - 1);
  }
  MPI_Bcast(&handle, sizeof handle, MPI_BYTE, 0, node.node_comm);
  if (node.local_rank == 0) return file;
  file = handle.is_created ? open(handle.path, O_RDWR | O_CLOEXEC) : -1;
  // In another process namespace, the process id may denote another process, with another file.
  const bool is_same_file =
      file >= 0 && fstat(file, &status) == 0 && status.st_dev == handle.device && status.st_ino == handle.inode;
  if (is_same_file) return file;
  if (file >= 0) close(file);
  return -1;
}

// Maps a file, at an address that is aligned to huge pages if the size is at least one. Returns nullptr if that fails.
std::byte* map_aligned(int file, std::size_t bytes) {
  const std::size_t alignment = page_bytes_for(bytes);
  void* room = mmap(nullptr, bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return nullptr;
  auto* aligned = reinterpret_cast<std::byte*>(round_up_to_multiple(reinterpret_cast<std::uintptr_t>(room), alignment));
  auto* end = static_cast<std::byte*>(room) + bytes + alignment;
  if (mmap(aligned, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) {
    const int reason = errno;
    munmap(room, bytes + alignment);
    errno = reason;
    return nullptr;
  }
  if (aligned > room) munmap(room, static_cast<std::size_t>(aligned - static_cast<std::byte*>(room)));
  if (end > aligned + bytes) munmap(aligned + bytes, static_cast<std::size_t>(end - aligned - bytes));
  return aligned;
}

// Maps a file that open_file_of_first_rank() has returned.
std::optional<Mapping> map_file(int file, std::size_t bytes, Problem& problem) {
  if (file < 0) {
    problem = {"ranks of this node cannot open each other's shared memory", ErrorCode::unavailable};
    return std::nullopt;
  }
  Mapping mapping;
  mapping.file = file;
  mapping.data = map_aligned(file, file_bytes_for(bytes));
  if (!mapping.data) {
    problem = {std::string("cannot map shared memory: ") + std::strerror(errno)};
    return std::nullopt;
  }
  mapping.mapped_bytes = file_bytes_for(bytes);
  return mapping;
}

std::optional<Mapping> try_make_memfd(const Node& node, std::size_t bytes, unsigned flags, Problem& problem) {
  const int file = node.local_rank == 0 ? resize_or_close(memfd_create("nearfield", flags), file_bytes_for(bytes)) : -1;
  return map_file(open_file_of_first_rank(node, file, ""), bytes, problem);
}

Problem find_lack_of_memory(std::size_t bytes) {
  const auto available = read_meminfo("MemAvailable:") * 1024;
  if (!available || available >= bytes) return {};
  return {"a field needs " + format_mebibytes(bytes) + " on this node, but " + format_mebibytes(available) +
          " are available: make the grid smaller or use more nodes"};
}

// ---- memory of huge pages that an administrator has reserved. Only mmap shows whether enough of them are free.

Problem find_lack_of_reserved_pages(std::size_t bytes) {
  const bool has_pages = bytes >= huge_page_bytes &&
                         read_meminfo("HugePages_Free:") * huge_page_bytes >= file_bytes_for(bytes) &&
                         read_meminfo("Hugepagesize:") * 1024 == huge_page_bytes;
  return has_pages ? find_lack_of_memory(bytes) : Problem{"too few huge pages are reserved and free"};
}

std::optional<Mapping> try_make_hugetlb(const Node& node, std::size_t bytes, Problem& problem) {
  return try_make_memfd(node, bytes, MFD_CLOEXEC | MFD_HUGETLB, problem);
}

PageUse touch_reserved_pages(const Node&, const Mapping& mapping, const SegmentPart& part) {
  prefault_reserved(mapping, part);
  return {"huge pages that were reserved", huge_page_bytes};
}

// ---- a memfd, which has no name and is limited by memory only

std::optional<Mapping> try_make_plain_memfd(const Node& node, std::size_t bytes, Problem& problem) {
  return try_make_memfd(node, bytes, MFD_CLOEXEC, problem);
}

PageUse touch_memfd_pages(const Node& node, const Mapping& mapping, const SegmentPart& part) {
  return touch_file_pages(node, mapping, part, "");
}

// ---- a file in /dev/shm, for ranks that cannot open each other's memfd (separate containers or process namespaces).
// It is unlinked as soon as all ranks have opened it.

std::string make_random_shm_path() {
  std::random_device random;
  char text[64];
  std::snprintf(text, sizeof text, "/dev/shm/nearfield-%08x%08x%08x%08x", random(), random(), random(), random());
  return text;
}

std::optional<Mapping> try_make_shm_file(const Node& node, std::size_t bytes, Problem& problem) {
  int file = -1;
  std::string path;
  if (node.local_rank == 0) {
    path = make_random_shm_path();
    file = resize_or_close(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600), file_bytes_for(bytes));
  }
  file = open_file_of_first_rank(node, file, path);
  MPI_Barrier(node.node_comm);
  if (node.local_rank == 0) unlink(path.c_str());
  return map_file(file, bytes, problem);
}

PageUse touch_shm_file_pages(const Node& node, const Mapping& mapping, const SegmentPart& part) {
  return touch_file_pages(node, mapping, part, " in /dev/shm " + shm_size_hint);
}

// ---- a window of MPI

Problem find_lack_of_shm(std::size_t bytes) {
  struct statvfs room{};
  if (statvfs("/dev/shm", &room) != 0 || room.f_bavail * room.f_frsize >= bytes + 2 * base_page_bytes) return {};
  return {"a field needs " + format_mebibytes(bytes) + ", but /dev/shm has " +
          format_mebibytes(room.f_bavail * room.f_frsize) + " " + shm_size_hint};
}

std::optional<Mapping> try_make_window(const Node& node, std::size_t bytes, Problem&) {
  Mapping mapping;
  void* base = nullptr;
  const auto window_bytes =
      static_cast<MPI_Aint>(node.local_rank == 0 ? std::max<std::size_t>(bytes, 1) + base_page_bytes : 0);
  MPI_Win_allocate_shared(window_bytes, 1, MPI_INFO_NULL, node.node_comm, &base, &mapping.window);
  MPI_Aint bytes_of_first_rank = 0;
  int unit = 0;
  MPI_Win_shared_query(mapping.window, 0, &bytes_of_first_rank, &unit, &base);
  MPI_Win_lock_all(MPI_MODE_NOCHECK, mapping.window);
  // The base has the same offset in its page on all ranks.
  mapping.data =
      reinterpret_cast<std::byte*>(round_up_to_multiple(reinterpret_cast<std::uintptr_t>(base), base_page_bytes));
  return mapping;
}

PageUse touch_window_pages(const Node& node, const Mapping& mapping, const SegmentPart& part) {
  const auto [first, last] = first_touched_pages(part, base_page_bytes, part.segment_bytes);
  if (last > first) std::memset(mapping.data + first, 0, last - first);
  MPI_Barrier(node.node_comm);
  return {"pages as the MPI gives them", base_page_bytes};
}

}  // namespace

const std::array<Backing, 3> file_backings{{
    {"hugetlb memory", find_lack_of_reserved_pages, try_make_hugetlb, touch_reserved_pages},
    {"a memfd", find_lack_of_memory, try_make_plain_memfd, touch_memfd_pages},
    {"an unlinked file of /dev/shm", find_lack_of_memory, try_make_shm_file, touch_shm_file_pages},
}};

const std::array<Backing, 1> window_backings{{
    {"a window of MPI_Win_allocate_shared", find_lack_of_shm, try_make_window, touch_window_pages},
}};

}  // namespace nearfield::halo

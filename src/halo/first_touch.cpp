#include "halo/first_touch.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/linux.h"
#include "halo/error.hpp"

namespace nearfield::halo {
namespace {

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

// How much of a range of huge pages was collapsed, and why not all of it.
struct Collapse {
  std::size_t bytes = 0;
  int no_memory = 0;    // an error code as in errno
  std::string refusal;  // the kernel's
};

// Gets huge pages: touches the first base page of each and calls madvise(MADV_COLLAPSE) (Linux 6.1), which works even
// if the system disables transparent huge pages. Only one rank collapses each huge page, since concurrent attempts
// disturb each other.
Collapse collapse_pages(const Mapping& mapping, std::size_t first, std::size_t last) {
  Collapse collapse;
  for (auto at = first; at < last && collapse.refusal.empty(); at += huge_page_bytes) {
    collapse.no_memory = reserve_file_range(mapping.file, at, at + base_page_bytes);
    if (collapse.no_memory) break;
    *reinterpret_cast<volatile std::byte*>(mapping.data + at) = std::byte{0};
    for (int attempt = 0; attempt < 5; ++attempt)
      if (madvise(mapping.data + at, huge_page_bytes, MADV_COLLAPSE) == 0) {
        collapse.bytes += huge_page_bytes;
        break;
      } else if (errno != EAGAIN) {
        collapse.refusal = std::strerror(errno);
        break;
      }
  }
  return collapse;
}

}  // namespace

std::pair<std::size_t, std::size_t> first_touched_pages(const SegmentPart& part, std::size_t page, std::size_t whole) {
  const auto edge = [&](std::size_t border) {
    return border == part.segment_bytes ? whole : std::min((border + page / 2) / page * page, whole);
  };
  return {edge(part.begin), edge(part.end)};
}

void prefault_reserved(const Mapping& mapping, const SegmentPart& part) {
  const auto [first, last] = first_touched_pages(part, page_bytes_for(part.segment_bytes), mapping.mapped_bytes);
  if (last > first) madvise(mapping.data + first, last - first, MADV_POPULATE_WRITE);  // else touched at first use
}

PageUse touch_file_pages(const Node& node, const Mapping& mapping, const SegmentPart& part, const std::string& place) {
  const std::size_t page = page_bytes_for(part.segment_bytes);
  const auto [first, last] = first_touched_pages(part, page, mapping.mapped_bytes);
  Collapse collapse;
  if (page == huge_page_bytes) {
    madvise(mapping.data, mapping.mapped_bytes, MADV_HUGEPAGE);
    collapse = collapse_pages(mapping, first, last);
  }
  int no_memory = collapse.no_memory;
  if (!no_memory && first + collapse.bytes < last)
    no_memory = reserve_file_range(mapping.file, first + collapse.bytes, last);
  std::string problem;
  if (no_memory)
    problem = "a field needs " + format_mebibytes(part.segment_bytes) +
              " of shared memory on this node: " + std::strerror(no_memory) + place;
  throw_collectively(node.node_comm, problem, ErrorCode::memory);
  prefault_reserved(mapping, part);
  unsigned long collapsed_by_all = collapse.bytes;
  MPI_Allreduce(MPI_IN_PLACE, &collapsed_by_all, 1, MPI_UNSIGNED_LONG, MPI_SUM, node.node_comm);
  if (page != huge_page_bytes) return {"4 KiB pages, as it is smaller than a huge one", base_page_bytes};
  if (collapsed_by_all == mapping.mapped_bytes) return {"huge pages (collapsed)", huge_page_bytes};
  if (has_transparent_huge_pages()) return {"huge pages where the kernel gives them (transparent)", huge_page_bytes};
  const std::string refusal = collapse.refusal.empty() ? "another rank's" : collapse.refusal;
  return {"4 KiB pages: the kernel refuses to collapse them (" + refusal + ")",
          collapsed_by_all ? huge_page_bytes : base_page_bytes};
}

}  // namespace nearfield::halo

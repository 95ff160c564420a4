// Memory that the ranks of a node share, on huge pages if possible (paper S1, papers/S1/README.md, section IV.C). Each
// rank touches its part first, so the part is allocated on the NUMA node of the rank. A page that contains the border
// of two parts belongs to the rank with the larger share of the page. After creation the memory has no name in the file
// system, so no file remains if processes are killed.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "halo/backing.hpp"
#include "halo/node.hpp"

namespace nearfield::halo {

enum class SegmentBacking {
  memfd,  ///< a memfd, or if that is impossible, an unlinked file in /dev/shm; huge pages by the first way that works
  window  ///< MPI_Win_allocate_shared, the method of paper S1; base pages
};

/// Construction and destruction are collective over all ranks. The ways to get memory are in backing.hpp.
class Segment {
 public:
  /// Allocates zeroed memory. The part of this rank is the bytes from `part_begin` to `part_end`; the parts together
  /// cover all bytes. If a node has too little memory, throws Error(memory) on all ranks.
  Segment(const Node& node, std::size_t bytes, std::size_t part_begin, std::size_t part_end, SegmentBacking backing);
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  std::byte* data() const { return mapping_.data; }
  std::size_t bytes() const { return bytes_; }
  /// Returns a human-readable description, such as "64.0 MiB in a memfd, huge pages (collapsed)", which also says why
  /// the pages are not huge.
  std::string explain() const;
  /// Returns the page size in bytes. If the kernel may use transparent huge pages, returns the huge page size.
  std::size_t page_bytes() const { return pages_.page_bytes; }
  /// Returns the number of bytes that this process maps by huge pages, from /proc/self/smaps.
  std::size_t huge_page_backed_bytes() const;

 private:
  void allocate(const Node& node, const SegmentPart& part, std::span<const Backing> backings);

  std::size_t bytes_;
  Mapping mapping_;
  const char* memory_description_ = "";
  PageUse pages_{"", base_page_bytes};
};

}  // namespace nearfield::halo

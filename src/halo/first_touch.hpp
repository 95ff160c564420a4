// Which rank touches which pages of shared memory first: the kernel allocates a page on the NUMA node of the rank that
// touches it first.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "halo/mapping.hpp"
#include "halo/node.hpp"

namespace nearfield::halo {

inline constexpr std::size_t base_page_bytes = 4096, huge_page_bytes = 2 << 20;

/// Returns the size of the pages that a segment of this size is to have.
inline std::size_t page_bytes_for(std::size_t bytes) {
  return bytes >= huge_page_bytes ? huge_page_bytes : base_page_bytes;
}

/// The bytes of a segment, and those of them that belong to this rank.
struct SegmentPart {
  std::size_t segment_bytes, begin, end;
};

struct PageUse {
  std::string description;
  std::size_t page_bytes;
};

/// Returns the byte range [first, last) of the pages that this rank touches first. Both borders of its part are rounded
/// to the nearest page boundary. `whole` is the mapped size.
std::pair<std::size_t, std::size_t> first_touched_pages(const SegmentPart& part, std::size_t page, std::size_t whole);

/// Touches the pages of this rank first. The pages must have been reserved, or SIGBUS may kill the process.
void prefault_reserved(const Mapping& mapping, const SegmentPart& part);

/// Reserves and touches the pages of this rank in a mapped file, as huge pages if the segment is large enough.
/// Collective over the ranks of the node. If the node has too little memory, throws Error(memory) on all of its ranks;
/// `place` is the end of the message.
PageUse touch_file_pages(const Node& node, const Mapping& mapping, const SegmentPart& part, const std::string& place);

}  // namespace nearfield::halo

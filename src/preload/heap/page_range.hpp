// Ranges of the heap's pages, and those that a range of memory touches or fills.
#pragma once

#include <cstddef>

#include "preload/heap/region.hpp"
#include "preload/heap/spans.hpp"

namespace nearfield::heap {

struct PageRange {
  Spans::Page from, upto;
  bool is_empty() const { return from >= upto; }
};

// Returns the pages of the heap that overlap [from, from + bytes).
PageRange pages_overlapping(const void* from, std::size_t bytes);
// Returns the pages that lie entirely in [from, from + bytes). The last page of a block also counts if only bytes
// behind the block's end are missing, because nobody uses those. Requires the heap's lock.
PageRange pages_filled_by(const char* from, std::size_t bytes);

inline std::size_t bytes_of_pages(Spans::Page from, Spans::Page upto) {
  return std::size_t{upto - from} << page_shift();
}

}  // namespace nearfield::heap

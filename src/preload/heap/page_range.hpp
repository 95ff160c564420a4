// Ranges of the heap's pages, and those that a range of memory touches or fills.
#pragma once

#include <cstddef>

#include "preload/heap/region.hpp"
#include "preload/heap/spans.hpp"

namespace nearfield::heap {

struct PageRange {
  Spans::Page first_page, end_page;
  bool is_empty() const { return first_page >= end_page; }
};

// Returns the pages of the heap that overlap [from, from + bytes).
PageRange pages_overlapping(const void* from, std::size_t bytes);
// Returns the pages that lie entirely in [from, from + bytes). The last page of a block also counts if the range
// contains all bytes of the block in this page, because the bytes behind the end of the block are unused. Requires the
// heap's lock.
PageRange pages_filled_by(const char* from, std::size_t bytes);

inline std::size_t bytes_of_pages(Spans::Page first_page, Spans::Page end_page) {
  return std::size_t{end_page - first_page} << page_shift();
}

}  // namespace nearfield::heap

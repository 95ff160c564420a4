#include "preload/heap/page_range.hpp"

#include <algorithm>
#include <cstdint>

#include "preload/heap/heap.hpp"

namespace nearfield::heap {

PageRange pages_overlapping(const void* from, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(from);
  const std::uintptr_t first = std::max(begin, heap_begin),
                       end = std::min(begin + bytes, heap_begin + heap_address_bytes);
  if (first >= end || begin + bytes < begin) return {0, 0};
  return {page_of(first), page_of(end - 1) + 1};
}

PageRange pages_filled_by(const char* from, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(from), end = begin + bytes;
  PageRange pages{page_of(begin + page_bytes() - 1), page_of(end)};
  if (end % page_bytes() != 0 && is_end_of_block(end)) ++pages.end_page;
  return pages;
}

}  // namespace nearfield::heap

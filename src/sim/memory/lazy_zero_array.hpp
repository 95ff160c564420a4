// Zero-initialized arrays whose host pages are allocated at their first use, by mmap. calloc() does so only until a
// large array has been freed: after that, calloc() reuses the freed memory and clears a whole array at once.
#pragma once

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace nearfield::sim {

struct UnmapDeleter {
  std::size_t mapped_bytes = 0;  // mapped bytes; 0: the array is from aligned_alloc()
  void operator()(void* start) const {
    if (mapped_bytes > 0)
      munmap(start, mapped_bytes);
    else
      std::free(start);
  }
};

template <class Element>
using LazyZeroArray = std::unique_ptr<Element[], UnmapDeleter>;

// The size of an array's host pages. Huge pages suit a long array that is accessed throughout; they waste memory
// otherwise.
enum class HostPages { normal, large };

// Returns an array of `count` elements, all bytes zero. Throws std::bad_alloc if the host has no memory.
template <class Element>
LazyZeroArray<Element> make_lazy_zero_array(std::size_t count, HostPages pages = HostPages::normal) {
  constexpr std::size_t max_malloc_bytes = 1 << 14, alignment = 64, min_huge_page_array_bytes = 1 << 22;
  const std::size_t bytes = (count * sizeof(Element) + alignment - 1) / alignment * alignment;
  if (bytes > max_malloc_bytes) {
    void* const start =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) throw std::bad_alloc();
    if (pages == HostPages::large && bytes >= min_huge_page_array_bytes)
      madvise(start, bytes, MADV_HUGEPAGE);  // best effort
    return {static_cast<Element*>(start), UnmapDeleter{bytes}};
  }
  void* const start = std::aligned_alloc(alignment, bytes);
  if (start == nullptr) throw std::bad_alloc();
  return {static_cast<Element*>(std::memset(start, 0, bytes)), UnmapDeleter{}};
}

}  // namespace nearfield::sim

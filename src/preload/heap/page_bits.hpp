// A bit for each page of a heap.
//
// The bits take 32 MiB of addresses. Only the bits of the used part of the heap are accessible. Otherwise mlockall()
// would make all bits resident, and the kernel would allocate a huge page for a few bits.
//
// Thread-safe, except for map() and unmap().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/heap/spans.hpp"

namespace nearfield::heap {

class PageBits {
 public:
  using Page = Spans::Page;
  static constexpr std::size_t bytes = std::size_t{32} << 20;

  // Maps the bits, all zero, in private memory. Returns whether that succeeded.
  bool map();
  // Maps the bits from `offset` on in a file. Returns whether that succeeded.
  bool map(int file, std::size_t offset, bool for_writing);
  void unmap();
  // Forgets the bits in a forked child, where they are not mapped.
  void forget_mapping();
  bool is_mapped() const { return words_ != nullptr; }
  // Sets whether a forked child inherits the bits.
  void set_inherited_by_children(bool is_inherited) const;

  // Makes the bits of all pages before `end_page` accessible. Returns false if the kernel refuses.
  bool make_accessible(Page end_page) {
    return end_page <= num_accessible_pages_.load(std::memory_order_acquire) || extend_accessible(end_page);
  }
  // Returns whether the bits of all pages in [first_page, end_page) are set. Inaccessible bits count as zero.
  bool are_set(Page first_page, Page end_page) const;
  bool is_set(Page page) const { return are_set(page, page + 1); }
  // Sets the bits of the pages in [first_page, end_page), which must be accessible.
  void set(Page first_page, Page end_page);
  // Sets one bit, and maps private memory for it if necessary. Returns whether that succeeded.
  bool set(Page page);
  void clear(Page first_page, Page end_page);

 private:
  bool map(int file, std::size_t offset, int protection, int flags);
  bool extend_accessible(Page end_page);

  std::atomic<std::uint64_t>* words_ = nullptr;
  std::atomic<Page> num_accessible_pages_{0};
  int protection_ = 0;
};

}  // namespace nearfield::heap

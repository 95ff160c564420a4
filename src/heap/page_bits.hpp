// A bit for each page of a heap.
//
// The bits have 32 MiB of addresses, of which only those are accessible that the used part of the heap needs. Otherwise
// mlockall() would make all of them resident, and the kernel would place a huge page where a few bits are set.
//
// Threads: any number at once, but map() and unmap().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "heap/spans.hpp"

namespace nearfield::heap {

class PageBits {
 public:
  using Page = Spans::Page;
  static constexpr std::size_t bytes = std::size_t{32} << 20;

  // Maps the bits, all of which are zero, in private memory. Returns whether it could.
  bool map();
  // Maps the bits that stand in a file from `offset` on. Returns whether it could.
  bool map(int file, std::size_t offset, bool for_writing);
  void unmap();
  // Forgets bits that are not mapped in this process, a child.
  void forget();
  bool is_mapped() const { return words_ != nullptr; }
  // Sets whether a child of fork inherits the bits.
  void let_child_inherit(bool yes) const;

  // Makes the bits of the pages before `upto` accessible. Returns false if the kernel refuses.
  bool reach(Page upto) { return upto <= reach_.load(std::memory_order_acquire) || extend(upto); }
  // Returns whether the bits of all these pages are set. Bits that are not accessible count as zero.
  bool are_set(Page from, Page upto) const;
  bool is_set(Page page) const { return are_set(page, page + 1); }
  // Sets bits, which must be accessible.
  void set(Page from, Page upto);
  // Sets one bit, mapping private memory for it if there is none. Returns whether it could.
  bool set(Page page);
  void clear(Page from, Page upto);

 private:
  bool map(int file, std::size_t offset, int protection, int flags);
  bool extend(Page upto);

  std::atomic<std::uint64_t>* words_ = nullptr;
  std::atomic<Page> reach_{0};
  int protection_ = 0;
};

}  // namespace nearfield::heap

// The blocks of the heap: spans of whole pages, by two-level segregated fit (M. Masmano, I. Ripoll, A. Crespo, J. Real:
// TLSF, ECRTS 2004), so that allocating and freeing a span take constant time.
//
// No two blocks share a page, and a block contains nothing but the program's own bytes: the metadata of a span is in a
// table outside of the heap, in the entries of its first and last page. So the pages of one block can move into shared
// memory (sharing.hpp) without affecting another block.
//
// Pages that were never allocated, or were returned to the system, are known to be zero and are not touched.
//
// Not thread-safe; the heap holds its lock. Nothing here allocates, and `none` is the only failure.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nearfield::heap {

class Spans {
 public:
  using Page = std::uint32_t;  // page number, from the beginning of the heap's addresses
  static constexpr Page none = ~Page{0};

  // The table's entry of a page. `pages` and `use` are valid at a span's first page, `first` at its last one.
  struct Entry {
    Page pages;
    Page first;
    union {
      struct {
        Page next, before;  // of a free span: its neighbours in the list
      } list;
      std::uint64_t wanted_bytes;  // of an allocated span: the requested size
    };
    std::uint32_t use;
    std::uint32_t idle;  // of a free span: its contribution to idle_pages()
  };

  // Begins without pages; `table` has room for the entries of all pages that add() will name.
  void start(Entry* table) { table_ = table; }
  // Adds free zero pages, which follow those added before.
  void add(Page first, Page pages);

  // Returns the first page of a span of this many pages, at a multiple of `alignment` (a power of two); `none` if there
  // is none. `is_zero` is set to whether all of its bytes are zero.
  Page take(Page pages, Page alignment, bool& is_zero);
  void give_back(Page first);
  // Same, for a span whose pages were returned to the system.
  void give_back_zero(Page first);
  // Grows or shrinks an allocated span in place. Returns whether that was possible.
  bool resize(Page first, Page pages);
  // Returns whether only free pages follow an allocated span, so that it can grow into pages that add() adds.
  bool is_last(Page first) const;

  // Returns the number of free pages after all allocated ones.
  Page free_pages_at_end() const { return is_free_before(end_) ? end_ - table_[end_ - 1].first : 0; }

  Page pages_of(Page first) const { return table_[first].pages; }
  std::uint64_t wanted_bytes(Page first) const { return table_[first].wanted_bytes; }
  void set_wanted_bytes(Page first, std::uint64_t bytes) { table_[first].wanted_bytes = bytes; }
  // Returns whether an allocated span of more than one page begins at this page.
  bool is_taken_span(Page first) const;
  // Returns the first page of the allocated span whose last page this is; `none` if it is not a last page.
  Page taken_span_that_ends_at(Page last) const;

  // Returns the first page of those that were never allocated.
  Page untouched_page() const { return untouched_; }
  Page taken_pages() const { return taken_; }
  // Returns the number of free pages that were used and not returned to the system since.
  Page idle_pages() const { return idle_; }
  // Returns free pages to the system by `drop`, longest spans first, until at most `keep` of them are idle. `drop`
  // returns whether it succeeded.
  void purge(Page keep, bool (*drop)(Page first, Page pages));

 private:
  enum Use : std::uint32_t { taken, free_and_used, free_and_zero };
  static constexpr int sub_bits = 4, sub_count = 1 << sub_bits, level_count = 29;
  struct SizeClass {
    int level, sub;
  };

  static SizeClass class_of(Page pages);
  static SizeClass first_fit(Page pages);
  Page best_of(Page list, Page pages) const;
  Page find(Page pages) const;
  bool is_free(Page first) const { return table_[first].use != taken; }
  bool is_free_before(Page first) const { return first > begin_ && is_free(table_[first - 1].first); }
  bool is_free_behind(Page first) const { return end_of(first) < end_ && is_free(end_of(first)); }
  Page end_of(Page first) const { return first + table_[first].pages; }
  Page used_part(Page first) const;
  void set(Page first, Page pages, std::uint32_t use);
  void insert(Page first);
  void remove(Page first);
  Page merged(Page first);
  void cut(Page first, Page pages);
  void mark_taken(Page first);

  Entry* table_ = nullptr;
  Page lists_[level_count][sub_count] = {};  // the first span plus 1; 0: none
  std::uint32_t levels_ = 0;
  std::uint32_t subs_[level_count] = {};
  Page begin_ = 0, end_ = 0;
  Page untouched_ = 0;  // later pages were never allocated
  Page taken_ = 0, idle_ = 0;
};

}  // namespace nearfield::heap

// Allocates the blocks of the heap as spans of whole pages, by two-level segregated fit (M. Masmano, I. Ripoll,
// A. Crespo, J. Real: TLSF, ECRTS 2004): allocating and freeing a span take constant time.
//
// No two blocks share a page, and a block contains nothing but the program's own bytes: the metadata of a span is in a
// table outside of the heap, in the entries of its first and last page. So the pages of one block can move into shared
// memory (sharing.hpp) without affecting another block.
//
// Pages that were never allocated, or were returned to the system, are known to be zero and are not touched.
//
// Not thread-safe: callers hold the heap's lock, except for the entry of a block that the calling thread owns. No
// function allocates memory, and the only failure is the result `none`.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nearfield::heap {

class Spans {
 public:
  using Page = std::uint32_t;  // page number, from the beginning of the heap's addresses
  static constexpr Page none = ~Page{0};

  // The table's entry for one page. `pages` and `use` are valid in the entry of a span's first page, `first` in the
  // entry of a span's last page.
  struct Entry {
    Page pages;
    Page first;
    union {
      struct {
        Page next, before;  // of a free span: first pages of its neighbours in the list, plus 1; 0: none
      } list;
      std::uint64_t wanted_bytes;  // of an allocated span: the size that the program has requested
    };
    std::uint32_t use;
    std::uint32_t idle;  // of a free span: its contribution to idle_pages()
  };

  // Sets the table, which must have room for the entries of all pages that will be added.
  void use_table(Entry* table) { table_ = table; }
  // Adds free pages full of zeros. They must follow the pages that were added before.
  void add_pages(Page first, Page pages);

  // Allocates a span of `pages` pages whose first page number is a multiple of `alignment` (a power of two). Returns
  // the first page; `none` if no free span is long enough. Sets `is_zero` to whether all bytes of the span are zero.
  Page allocate(Page pages, Page alignment, bool& is_zero);
  // Frees an allocated span.
  void release(Page first);
  // Frees an allocated span whose pages were returned to the system, so that they are zero.
  void release_zeroed(Page first);
  // Grows or shrinks an allocated span in place. Returns whether that was possible.
  bool resize(Page first, Page pages);
  // Returns whether only free pages follow an allocated span, so that the span can grow into pages added later.
  bool only_free_pages_follow(Page first) const;

  // Returns the number of free pages behind the last allocated page.
  Page free_pages_at_end() const { return is_free_before(end_) ? end_ - table_[end_ - 1].first : 0; }

  Page pages_of(Page first) const { return table_[first].pages; }
  std::uint64_t wanted_bytes(Page first) const { return table_[first].wanted_bytes; }
  void set_wanted_bytes(Page first, std::uint64_t bytes) { table_[first].wanted_bytes = bytes; }
  // Returns whether an allocated span of more than one page begins at the page `first`.
  bool begins_multipage_span(Page first) const;
  // Returns the first page of the allocated span that ends with the page `last`; `none` if none ends there.
  Page allocated_span_ending_at(Page last) const;

  // Returns the number of the first page behind all pages that have been used since they were added or purged.
  Page first_untouched_page() const { return untouched_; }
  Page allocated_pages() const { return taken_; }
  // Returns the number of free pages that were used and have not been returned to the system since.
  Page idle_pages() const { return idle_; }
  // Calls `drop` with the used pages of free spans, longest spans first, until at most `keep` pages are idle. `drop`
  // returns whether it has returned the pages to the system.
  void purge(Page keep, bool (*drop)(Page first, Page pages));

 private:
  enum Use : std::uint32_t { taken, free_and_used, free_and_zero };
  static constexpr int sub_bits = 4, sub_count = 1 << sub_bits, level_count = 29;
  struct SizeClass {
    int level, sub;
  };

  static SizeClass size_class_of(Page pages);
  static SizeClass first_sufficient_class(Page pages);
  Page best_fit_in_list(Page list, Page pages) const;
  Page find_free_span(Page pages) const;
  bool is_free(Page first) const { return table_[first].use != taken; }
  bool is_free_before(Page first) const { return first > begin_ && is_free(table_[first - 1].first); }
  bool is_free_behind(Page first) const { return end_of(first) < end_ && is_free(end_of(first)); }
  Page end_of(Page first) const { return first + table_[first].pages; }
  Page possibly_used_pages(Page first) const;
  void set_span(Page first, Page pages, std::uint32_t use);
  void insert(Page first);
  void remove(Page first);
  Page coalesce(Page first);
  void split_off_rest(Page first, Page pages);
  void mark_taken(Page first);

  Entry* table_ = nullptr;
  Page lists_[level_count][sub_count] = {};  // first page of each list's first span, plus 1; 0: the list is empty
  std::uint32_t levels_ = 0;
  std::uint32_t subs_[level_count] = {};
  Page begin_ = 0, end_ = 0;
  Page untouched_ = 0;  // from this page on, all pages are zero
  Page taken_ = 0, idle_ = 0;
};

}  // namespace nearfield::heap

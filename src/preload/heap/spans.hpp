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
// function allocates memory, and the only failure is the result `no_page`.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nearfield::heap {

class Spans {
 public:
  using Page = std::uint32_t;  // page number, from the beginning of the heap's addresses
  static constexpr Page no_page = ~Page{0};

  // The table's entry for one page. `num_pages` and `state` are valid in the entry of a span's first page, `first_page`
  // in the entry of a span's last page.
  struct SpanTableEntry {
    Page num_pages;
    Page first_page;
    union {
      struct {
        Page next, previous;  // of a free span: first pages of its neighbours in the list, plus 1; 0: none
      } list;
      std::uint64_t requested_bytes;  // of an allocated span: the size that the program has requested
    };
    std::uint32_t state;
    std::uint32_t num_idle_pages;  // of a free span: its contribution to num_idle_pages()
  };

  // Sets the table, which must have room for the entries of all pages that will be added.
  void set_table(SpanTableEntry* table) { entries_ = table; }
  // Adds free pages full of zeros. They must follow the pages that were added before.
  void add_pages(Page first, Page pages);

  // Allocates a span of `pages` pages whose first page number is a multiple of `alignment` (a power of two). Returns
  // the first page; `no_page` if no free span is long enough. Sets `is_zero` to whether all bytes of the span are zero.
  Page allocate(Page pages, Page alignment, bool& is_zero);
  // Frees an allocated span.
  void release(Page first);
  // Frees an allocated span whose pages were returned to the system, so that they are zero.
  void release_zeroed(Page first);
  // Grows or shrinks an allocated span in place. Returns whether that was possible.
  bool resize(Page first, Page pages);
  // Returns whether only free pages follow an allocated span, up to the end of the heap, so that the span can grow into
  // pages added later.
  bool only_free_pages_follow(Page first) const;

  // Returns the number of free pages behind the last allocated page.
  Page num_free_pages_at_end() const { return is_free_before(end_) ? end_ - entries_[end_ - 1].first_page : 0; }

  Page num_pages_of(Page first) const { return entries_[first].num_pages; }
  std::uint64_t requested_bytes(Page first) const { return entries_[first].requested_bytes; }
  void set_requested_bytes(Page first, std::uint64_t bytes) { entries_[first].requested_bytes = bytes; }
  // Returns whether an allocated span of more than one page begins at the page `first`.
  bool begins_multipage_span(Page first) const;
  // Returns the first page of the allocated span that ends with the page `last`; `no_page` if none ends there.
  Page allocated_span_ending_at(Page last) const;

  // Returns the number of the first page behind all pages that have been used since they were added or purged.
  Page first_untouched_page() const { return first_untouched_page_; }
  Page num_allocated_pages() const { return num_allocated_pages_; }
  // Returns the number of free pages that were used and have not been returned to the system since.
  Page num_idle_pages() const { return num_idle_pages_; }
  // Calls `return_to_system` with the used pages of free spans, longest spans first, until at most `max_idle_pages`
  // pages are idle. `return_to_system` returns whether it has returned the pages to the system.
  void purge(Page max_idle_pages, bool (*return_to_system)(Page first, Page pages));

 private:
  enum SpanState : std::uint32_t { allocated, free_and_dirty, free_and_zero };
  static constexpr int sublist_bits = 4, num_sublists = 1 << sublist_bits, num_levels = 29;
  struct SizeClass {
    int level, sublist;
  };

  static SizeClass size_class_of(Page pages);
  static SizeClass first_sufficient_class(Page pages);
  Page best_fit_in_list(Page list, Page pages) const;
  Page find_free_span(Page pages) const;
  bool is_free(Page first) const { return entries_[first].state != allocated; }
  bool is_free_before(Page first) const { return first > begin_ && is_free(entries_[first - 1].first_page); }
  bool is_free_behind(Page first) const { return end_of(first) < end_ && is_free(end_of(first)); }
  Page end_of(Page first) const { return first + entries_[first].num_pages; }
  Page num_possibly_dirty_pages(Page first) const;
  void set_span(Page first, Page pages, std::uint32_t state);
  void insert_into_free_list(Page first);
  void remove_from_free_list(Page first);
  Page coalesce(Page first);
  void split_off_remainder(Page first, Page pages);
  void mark_allocated(Page first);

  SpanTableEntry* entries_ = nullptr;
  // first page of each list's first span, plus 1; 0: the list is empty
  Page free_lists_[num_levels][num_sublists] = {};
  std::uint32_t nonempty_levels_ = 0;
  std::uint32_t nonempty_sublists_[num_levels] = {};
  Page begin_ = 0, end_ = 0;
  Page first_untouched_page_ = 0;  // from this page on, all pages are zero
  Page num_allocated_pages_ = 0, num_idle_pages_ = 0;
};

}  // namespace nearfield::heap

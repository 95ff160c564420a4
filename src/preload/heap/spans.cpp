#include "preload/heap/spans.hpp"

#include <algorithm>
#include <bit>

namespace nearfield::heap {
namespace {

// Returns the number of pages from `page` to the next multiple of `alignment`; 0 if `page` is one.
Spans::Page pages_until_aligned(Spans::Page page, Spans::Page alignment) {
  return ((page + alignment - 1) & ~(alignment - 1)) - page;
}

}  // namespace

Spans::SizeClass Spans::size_class_of(Page pages) {
  const int top = std::bit_width(pages) - 1;
  if (top < sublist_bits) return {0, static_cast<int>(pages)};
  return {top - sublist_bits + 1, static_cast<int>((pages >> (top - sublist_bits)) & (num_sublists - 1))};
}

// Returns the first size class in which every span has at least `pages` pages.
Spans::SizeClass Spans::first_sufficient_class(Page pages) {
  const int top = std::bit_width(pages) - 1;
  const Page more = top < sublist_bits ? 0 : (Page{1} << (top - sublist_bits)) - 1;
  return size_class_of(pages + more);
}

// Returns the shortest span of at least `pages` pages among the first 16 spans of a list; `no_page` if all are shorter.
// A close fit reduces fragmentation.
Spans::Page Spans::best_fit_in_list(Page list, Page pages) const {
  constexpr int max_checked_spans = 16;
  Page best = no_page;
  for (int num_checked = 0; list && num_checked < max_checked_spans;
       ++num_checked, list = entries_[list - 1].list.next) {
    const Page length = entries_[list - 1].num_pages;
    if (length >= pages && (best == no_page || length < entries_[best].num_pages)) best = list - 1;
  }
  return best;
}

Spans::Page Spans::find_free_span(Page pages) const {
  // The list of the size class of `pages` may also contain a span that is long enough.
  const SizeClass own_class = size_class_of(pages);
  if (const Page found = best_fit_in_list(free_lists_[own_class.level][own_class.sublist], pages); found != no_page)
    return found;
  const SizeClass from = first_sufficient_class(pages);
  if (from.level >= num_levels) return no_page;
  if (const std::uint32_t subs = nonempty_sublists_[from.level] & (~0u << from.sublist))
    return best_fit_in_list(free_lists_[from.level][std::countr_zero(subs)], pages);
  const std::uint32_t levels = from.level + 1 < num_levels ? nonempty_levels_ & (~0u << (from.level + 1)) : 0;
  if (!levels) return no_page;
  const int level = std::countr_zero(levels);
  return best_fit_in_list(free_lists_[level][std::countr_zero(nonempty_sublists_[level])], pages);
}

// Returns the number of pages of a free span that may hold non-zero bytes; they are the span's first pages.
Spans::Page Spans::num_possibly_dirty_pages(Page first) const {
  if (entries_[first].state == free_and_zero || first >= first_untouched_page_) return 0;
  return std::min(first_untouched_page_ - first, entries_[first].num_pages);
}

void Spans::set_span(Page first, Page pages, std::uint32_t state) {
  entries_[first].num_pages = pages;
  entries_[first].state = state;
  entries_[first + pages - 1].first_page = first;
}

void Spans::insert_into_free_list(Page first) {
  const SizeClass at = size_class_of(entries_[first].num_pages);
  Page& head = free_lists_[at.level][at.sublist];
  entries_[first].list = {head, 0};
  if (head) entries_[head - 1].list.previous = first + 1;
  head = first + 1;
  nonempty_levels_ |= 1u << at.level;
  nonempty_sublists_[at.level] |= 1u << at.sublist;
  entries_[first].num_idle_pages = num_possibly_dirty_pages(first);
  num_idle_pages_ += entries_[first].num_idle_pages;
}

void Spans::remove_from_free_list(Page first) {
  const SizeClass at = size_class_of(entries_[first].num_pages);
  const auto [next, previous] = entries_[first].list;
  if (next) entries_[next - 1].list.previous = previous;
  if (previous)
    entries_[previous - 1].list.next = next;
  else
    free_lists_[at.level][at.sublist] = next;
  if (!free_lists_[at.level][at.sublist]) {
    nonempty_sublists_[at.level] &= ~(1u << at.sublist);
    if (!nonempty_sublists_[at.level]) nonempty_levels_ &= ~(1u << at.level);
  }
  num_idle_pages_ -= entries_[first].num_idle_pages;
}

void Spans::add_pages(Page first, Page pages) {
  if (end_ == 0) begin_ = first_untouched_page_ = first;
  end_ = first + pages;
  set_span(first, pages, free_and_zero);
  insert_into_free_list(coalesce(first));
}

// Coalesces a free span that is in no list with its free neighbours. Returns the first page of the result, which is in
// no list either.
Spans::Page Spans::coalesce(Page first) {
  const auto join_spans = [this](Page left, Page right) {
    const bool zero = num_possibly_dirty_pages(left) == 0 && num_possibly_dirty_pages(right) == 0;
    set_span(left, entries_[left].num_pages + entries_[right].num_pages, zero ? free_and_zero : free_and_dirty);
    return left;
  };
  if (is_free_behind(first)) {
    const Page behind = end_of(first);
    remove_from_free_list(behind);
    join_spans(first, behind);
  }
  if (is_free_before(first)) {
    const Page before = entries_[first - 1].first_page;
    remove_from_free_list(before);
    first = join_spans(before, first);
  }
  return first;
}

void Spans::mark_allocated(Page first) {
  entries_[first].state = allocated;
  first_untouched_page_ = std::max(first_untouched_page_, end_of(first));
}

// Shortens a span that is in no list to `pages` pages, and inserts the rest as a free span, which counts as zero if the
// whole span was zero.
void Spans::split_off_remainder(Page first, Page pages) {
  const Page remainder = entries_[first].num_pages - pages;
  if (!remainder) return;
  const std::uint32_t state = entries_[first].state == free_and_zero ? free_and_zero : free_and_dirty;
  set_span(first, pages, allocated);  // not free, so that the split-off rest does not coalesce with it
  set_span(first + pages, remainder, state);
  insert_into_free_list(coalesce(first + pages));
}

Spans::Page Spans::allocate(Page pages, Page alignment, bool& is_zero) {
  Page first = find_free_span(pages);
  if (first != no_page && pages_until_aligned(first, alignment) + pages > entries_[first].num_pages)
    first = find_free_span(pages + alignment - 1);
  if (first == no_page) return no_page;
  remove_from_free_list(first);
  is_zero = num_possibly_dirty_pages(first) == 0;
  if (const Page ahead = pages_until_aligned(first, alignment)) {
    const Page all = entries_[first].num_pages;
    const std::uint32_t state = entries_[first].state;
    set_span(first, ahead, state);
    insert_into_free_list(first);
    first += ahead;
    set_span(first, all - ahead, state);
  }
  split_off_remainder(first, pages);
  mark_allocated(first);
  num_allocated_pages_ += pages;
  return first;
}

void Spans::release(Page first) {
  num_allocated_pages_ -= entries_[first].num_pages;
  entries_[first].state = free_and_dirty;
  insert_into_free_list(coalesce(first));
}

void Spans::release_zeroed(Page first) {
  num_allocated_pages_ -= entries_[first].num_pages;
  entries_[first].state = free_and_zero;
  insert_into_free_list(coalesce(first));
}

bool Spans::resize(Page first, Page pages) {
  const Page old_pages = entries_[first].num_pages;
  const std::uint64_t wanted = entries_[first].requested_bytes;
  if (pages > old_pages) {
    const Page behind = first + old_pages;
    if (behind >= end_ || !is_free(behind) || old_pages + entries_[behind].num_pages < pages) return false;
    remove_from_free_list(behind);
    const std::uint32_t state = num_possibly_dirty_pages(behind) == 0 ? free_and_zero : free_and_dirty;
    set_span(first, old_pages + entries_[behind].num_pages,
             state);  // the rest that split_off_remainder() splits off is zero if the absorbed span was
  }
  split_off_remainder(first, pages);
  set_span(first, pages, allocated);
  entries_[first].requested_bytes = wanted;
  mark_allocated(first);
  num_allocated_pages_ += pages - old_pages;
  return true;
}

bool Spans::only_free_pages_follow(Page first) const {
  const Page behind = end_of(first);
  return behind == end_ || (is_free(behind) && end_of(behind) == end_);
}

bool Spans::begins_multipage_span(Page first) const {
  if (first < begin_ || first >= end_ || entries_[first].state != allocated) return false;
  const Page pages = entries_[first].num_pages;
  return pages > 1 && pages <= end_ - first && entries_[first + pages - 1].first_page == first;
}

Spans::Page Spans::allocated_span_ending_at(Page last) const {
  if (last < begin_ || last >= end_) return no_page;
  const Page first = entries_[last].first_page;
  if (first < begin_ || first > last || entries_[first].state != allocated) return no_page;
  return first + entries_[first].num_pages == last + 1 ? first : no_page;
}

void Spans::purge(Page max_idle_pages, bool (*return_to_system)(Page first, Page pages)) {
  constexpr Page min_pages = 4;  // shorter spans do not justify a system call
  for (int level = num_levels - 1; level >= 0 && num_idle_pages_ > max_idle_pages; --level)
    for (int sublist = num_sublists - 1; sublist >= 0 && num_idle_pages_ > max_idle_pages; --sublist)
      for (Page at = free_lists_[level][sublist], next; at && num_idle_pages_ > max_idle_pages; at = next) {
        const Page first = at - 1, used = num_possibly_dirty_pages(first);
        next = entries_[first].list.next;
        if (used < min_pages || !return_to_system(first, used)) continue;
        remove_from_free_list(first);
        if (end_of(first) == end_) first_untouched_page_ = first;
        entries_[first].state = free_and_zero;
        insert_into_free_list(first);
      }
}

}  // namespace nearfield::heap

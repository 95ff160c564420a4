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
  if (top < sub_bits) return {0, static_cast<int>(pages)};
  return {top - sub_bits + 1, static_cast<int>((pages >> (top - sub_bits)) & (sub_count - 1))};
}

// Returns the first size class in which every span has at least `pages` pages.
Spans::SizeClass Spans::first_sufficient_class(Page pages) {
  const int top = std::bit_width(pages) - 1;
  const Page more = top < sub_bits ? 0 : (Page{1} << (top - sub_bits)) - 1;
  return size_class_of(pages + more);
}

// Returns the shortest span of at least `pages` pages among the first 16 spans of a list; `none` if all are shorter. A
// close fit reduces fragmentation.
Spans::Page Spans::best_fit_in_list(Page list, Page pages) const {
  constexpr int few = 16;
  Page best = none;
  for (int looked = 0; list && looked < few; ++looked, list = table_[list - 1].list.next) {
    const Page length = table_[list - 1].pages;
    if (length >= pages && (best == none || length < table_[best].pages)) best = list - 1;
  }
  return best;
}

Spans::Page Spans::find_free_span(Page pages) const {
  // The list of the requested size's own class may hold a span that is long enough, too.
  const SizeClass own = size_class_of(pages);
  if (const Page found = best_fit_in_list(lists_[own.level][own.sub], pages); found != none) return found;
  const SizeClass from = first_sufficient_class(pages);
  if (from.level >= level_count) return none;
  if (const std::uint32_t subs = subs_[from.level] & (~0u << from.sub))
    return best_fit_in_list(lists_[from.level][std::countr_zero(subs)], pages);
  const std::uint32_t levels = from.level + 1 < level_count ? levels_ & (~0u << (from.level + 1)) : 0;
  if (!levels) return none;
  const int level = std::countr_zero(levels);
  return best_fit_in_list(lists_[level][std::countr_zero(subs_[level])], pages);
}

// Returns the number of pages of a free span that may hold non-zero bytes; they are the span's first pages.
Spans::Page Spans::possibly_used_pages(Page first) const {
  if (table_[first].use == free_and_zero || first >= untouched_) return 0;
  return std::min(untouched_ - first, table_[first].pages);
}

void Spans::set_span(Page first, Page pages, std::uint32_t use) {
  table_[first].pages = pages;
  table_[first].use = use;
  table_[first + pages - 1].first = first;
}

void Spans::insert(Page first) {
  const SizeClass at = size_class_of(table_[first].pages);
  Page& head = lists_[at.level][at.sub];
  table_[first].list = {head, 0};
  if (head) table_[head - 1].list.before = first + 1;
  head = first + 1;
  levels_ |= 1u << at.level;
  subs_[at.level] |= 1u << at.sub;
  table_[first].idle = possibly_used_pages(first);
  idle_ += table_[first].idle;
}

void Spans::remove(Page first) {
  const SizeClass at = size_class_of(table_[first].pages);
  const auto [next, before] = table_[first].list;
  if (next) table_[next - 1].list.before = before;
  if (before)
    table_[before - 1].list.next = next;
  else
    lists_[at.level][at.sub] = next;
  if (!lists_[at.level][at.sub]) {
    subs_[at.level] &= ~(1u << at.sub);
    if (!subs_[at.level]) levels_ &= ~(1u << at.level);
  }
  idle_ -= table_[first].idle;
}

void Spans::add_pages(Page first, Page pages) {
  if (end_ == 0) begin_ = untouched_ = first;
  end_ = first + pages;
  set_span(first, pages, free_and_zero);
  insert(coalesce(first));
}

// Coalesces a free span that is in no list with its free neighbours. Returns the first page of the result, which is in
// no list either.
Spans::Page Spans::coalesce(Page first) {
  const auto joined = [this](Page left, Page right) {
    const bool zero = possibly_used_pages(left) == 0 && possibly_used_pages(right) == 0;
    set_span(left, table_[left].pages + table_[right].pages, zero ? free_and_zero : free_and_used);
    return left;
  };
  if (is_free_behind(first)) {
    const Page behind = end_of(first);
    remove(behind);
    joined(first, behind);
  }
  if (is_free_before(first)) {
    const Page before = table_[first - 1].first;
    remove(before);
    first = joined(before, first);
  }
  return first;
}

void Spans::mark_taken(Page first) {
  table_[first].use = taken;
  untouched_ = std::max(untouched_, end_of(first));
}

// Shortens a span that is in no list to `pages` pages, and inserts the rest as a free span, which counts as zero if the
// whole span was zero.
void Spans::split_off_rest(Page first, Page pages) {
  const Page rest = table_[first].pages - pages;
  if (!rest) return;
  const std::uint32_t use = table_[first].use == free_and_zero ? free_and_zero : free_and_used;
  set_span(first, pages, taken);  // not free, so that the split-off rest does not coalesce with it
  set_span(first + pages, rest, use);
  insert(coalesce(first + pages));
}

Spans::Page Spans::allocate(Page pages, Page alignment, bool& is_zero) {
  Page first = find_free_span(pages);
  if (first != none && pages_until_aligned(first, alignment) + pages > table_[first].pages)
    first = find_free_span(pages + alignment - 1);
  if (first == none) return none;
  remove(first);
  is_zero = possibly_used_pages(first) == 0;
  if (const Page ahead = pages_until_aligned(first, alignment)) {
    const Page all = table_[first].pages;
    const std::uint32_t use = table_[first].use;
    set_span(first, ahead, use);
    insert(first);
    first += ahead;
    set_span(first, all - ahead, use);
  }
  split_off_rest(first, pages);
  mark_taken(first);
  taken_ += pages;
  return first;
}

void Spans::release(Page first) {
  taken_ -= table_[first].pages;
  table_[first].use = free_and_used;
  insert(coalesce(first));
}

void Spans::release_zeroed(Page first) {
  taken_ -= table_[first].pages;
  table_[first].use = free_and_zero;
  insert(coalesce(first));
}

bool Spans::resize(Page first, Page pages) {
  const Page had = table_[first].pages;
  const std::uint64_t wanted = table_[first].wanted_bytes;
  if (pages > had) {
    const Page behind = first + had;
    if (behind >= end_ || !is_free(behind) || had + table_[behind].pages < pages) return false;
    remove(behind);
    const std::uint32_t use = possibly_used_pages(behind) == 0 ? free_and_zero : free_and_used;
    set_span(first, had + table_[behind].pages,
             use);  // the rest that split_off_rest() splits off is zero if the absorbed span was
  }
  split_off_rest(first, pages);
  set_span(first, pages, taken);
  table_[first].wanted_bytes = wanted;
  mark_taken(first);
  taken_ += pages - had;
  return true;
}

bool Spans::only_free_pages_follow(Page first) const {
  const Page behind = end_of(first);
  return behind == end_ || (is_free(behind) && end_of(behind) == end_);
}

bool Spans::begins_multipage_span(Page first) const {
  if (first < begin_ || first >= end_ || table_[first].use != taken) return false;
  const Page pages = table_[first].pages;
  return pages > 1 && pages <= end_ - first && table_[first + pages - 1].first == first;
}

Spans::Page Spans::allocated_span_ending_at(Page last) const {
  if (last < begin_ || last >= end_) return none;
  const Page first = table_[last].first;
  if (first < begin_ || first > last || table_[first].use != taken) return none;
  return first + table_[first].pages == last + 1 ? first : none;
}

void Spans::purge(Page keep, bool (*drop)(Page first, Page pages)) {
  constexpr Page min_pages = 4;  // shorter spans do not justify a system call
  for (int level = level_count - 1; level >= 0 && idle_ > keep; --level)
    for (int sub = sub_count - 1; sub >= 0 && idle_ > keep; --sub)
      for (Page at = lists_[level][sub], next; at && idle_ > keep; at = next) {
        const Page first = at - 1, used = possibly_used_pages(first);
        next = table_[first].list.next;
        if (used < min_pages || !drop(first, used)) continue;
        remove(first);
        if (end_of(first) == end_) untouched_ = first;
        table_[first].use = free_and_zero;
        insert(first);
      }
}

}  // namespace nearfield::heap

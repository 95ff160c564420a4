#include "preload/heap/page_bits.hpp"

#include <algorithm>

#include "base/linux.h"
#include "preload/heap/next_calls.hpp"
#include "preload/heap/region.hpp"

namespace nearfield::heap {
namespace {

std::uint64_t word_mask_of(Spans::Page first_page, Spans::Page count) {
  return (count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1) << (first_page % 64);
}

// Calls visit(word, mask) for each word that holds bits of the pages in [first_page, end_page), with the word's index
// and the mask of these bits, until a call returns false. Returns whether all calls returned true.
template <typename F>
bool for_each_word(Spans::Page first_page, Spans::Page end_page, F visit) {
  while (first_page < end_page) {
    const Spans::Page count = std::min(end_page - first_page, 64 - first_page % 64);
    if (!visit(first_page / 64, word_mask_of(first_page, count))) return false;
    first_page += count;
  }
  return true;
}

}  // namespace

bool PageBits::map(int file, std::size_t offset, int protection, int flags) {
  void* memory = next_mmap(nullptr, bytes, PROT_NONE, flags | MAP_NORESERVE, file, static_cast<off_t>(offset));
  if (memory == MAP_FAILED) return false;
  munlock(memory, bytes);  // mlockall(MCL_FUTURE) may have locked the memory
  words_ = static_cast<std::atomic<std::uint64_t>*>(memory);
  protection_ = protection;
  return true;
}

bool PageBits::map() { return map(-1, 0, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS); }

bool PageBits::map(int file, std::size_t offset, bool for_writing) {
  if (!map(file, offset, for_writing ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED)) return false;
  set_inherited_by_children(false);
  return true;
}

void PageBits::unmap() {
  if (words_) next_munmap(words_, bytes);
  forget_mapping();
}

void PageBits::forget_mapping() {
  words_ = nullptr;
  num_accessible_pages_ = 0;
}

void PageBits::set_inherited_by_children(bool is_inherited) const {
  next_madvise(words_, bytes, is_inherited ? MADV_DOFORK : MADV_DONTFORK);
}

bool PageBits::extend_accessible(Page end_page) {
  if (!words_) return false;
  const std::size_t step = page_bytes(), needed = (std::size_t{end_page} + 8 * step - 1) / (8 * step) * step;
  if (needed > bytes || next_mprotect(words_, needed, protection_) != 0) return false;
  const auto reached = static_cast<Page>(needed * 8);
  Page before = num_accessible_pages_.load();
  while (before < reached && !num_accessible_pages_.compare_exchange_weak(before, reached)) {
  }
  return true;
}

bool PageBits::are_set(Page first_page, Page end_page) const {
  if (end_page > num_accessible_pages_.load(std::memory_order_acquire)) return first_page >= end_page;
  return for_each_word(first_page, end_page, [this](Page word, std::uint64_t mask) {
    return (words_[word].load(std::memory_order_acquire) & mask) == mask;
  });
}

void PageBits::set(Page first_page, Page end_page) {
  for_each_word(first_page, end_page, [this](Page word, std::uint64_t mask) {
    words_[word].fetch_or(mask, std::memory_order_release);
    return true;
  });
}

bool PageBits::set(Page page) {
  if ((!words_ && !map()) || !make_accessible(page + 1)) return false;
  set(page, page + 1);
  return true;
}

void PageBits::clear(Page first_page, Page end_page) {
  for_each_word(first_page, std::min(end_page, num_accessible_pages_.load()), [this](Page word, std::uint64_t mask) {
    words_[word].fetch_and(~mask, std::memory_order_seq_cst);
    return true;
  });
}

}  // namespace nearfield::heap

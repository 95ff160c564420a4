#include "preload/heap/page_bits.hpp"

#include <algorithm>

#include "base/linux.h"
#include "preload/heap/next_calls.hpp"
#include "preload/heap/region.hpp"

namespace nearfield::heap {
namespace {

std::uint64_t mask_of(Spans::Page from, Spans::Page count) {
  return (count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1) << (from % 64);
}

// Calls act(word, mask) for each word that holds bits of the pages in [from, upto), with the word's index and the mask
// of these bits, until a call returns false. Returns whether none did.
template <typename F>
bool for_each_word(Spans::Page from, Spans::Page upto, F act) {
  while (from < upto) {
    const Spans::Page count = std::min(upto - from, 64 - from % 64);
    if (!act(from / 64, mask_of(from, count))) return false;
    from += count;
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
  let_child_inherit(false);
  return true;
}

void PageBits::unmap() {
  if (words_) next_munmap(words_, bytes);
  forget();
}

void PageBits::forget() {
  words_ = nullptr;
  accessible_ = 0;
}

void PageBits::let_child_inherit(bool yes) const { next_madvise(words_, bytes, yes ? MADV_DOFORK : MADV_DONTFORK); }

bool PageBits::extend_accessible(Page upto) {
  if (!words_) return false;
  const std::size_t step = page_bytes(), needed = (std::size_t{upto} + 8 * step - 1) / (8 * step) * step;
  if (needed > bytes || next_mprotect(words_, needed, protection_) != 0) return false;
  const auto reached = static_cast<Page>(needed * 8);
  Page before = accessible_.load();
  while (before < reached && !accessible_.compare_exchange_weak(before, reached)) {
  }
  return true;
}

bool PageBits::are_set(Page from, Page upto) const {
  if (upto > accessible_.load(std::memory_order_acquire)) return from >= upto;
  return for_each_word(from, upto, [this](Page word, std::uint64_t mask) {
    return (words_[word].load(std::memory_order_acquire) & mask) == mask;
  });
}

void PageBits::set(Page from, Page upto) {
  for_each_word(from, upto, [this](Page word, std::uint64_t mask) {
    words_[word].fetch_or(mask, std::memory_order_release);
    return true;
  });
}

bool PageBits::set(Page page) {
  if ((!words_ && !map()) || !make_accessible(page + 1)) return false;
  set(page, page + 1);
  return true;
}

void PageBits::clear(Page from, Page upto) {
  for_each_word(from, std::min(upto, accessible_.load()), [this](Page word, std::uint64_t mask) {
    words_[word].fetch_and(~mask, std::memory_order_seq_cst);
    return true;
  });
}

}  // namespace nearfield::heap

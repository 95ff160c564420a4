// A directory for the caches of a coherence point: which of them may have a granule. A core's miss then snoops these
// caches and not all of them. A sharer may have lost the granule since; a cache that is no sharer does not have it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "sim/memory/lazy_zero_array.hpp"
#include "sim/memory/way_group.hpp"

namespace nearfield::sim {

class Directory {
 public:
  static constexpr std::size_t max_caches = 128;

  // Caches, by their numbers at the coherence point.
  class Sharers {
   public:
    Sharers(std::uint32_t* words, int count) : words_(words), count_(count) {}
    void add(int cache) { words_[cache >> 5] |= bit_of_cache(cache); }
    void remove(int cache) { words_[cache >> 5] &= ~bit_of_cache(cache); }
    bool is_only_sharer(int cache) const {
      std::uint32_t others = 0;
      for (int w = 0; w < count_; ++w) others |= words_[w] & ~(w == cache >> 5 ? bit_of_cache(cache) : 0U);
      return others == 0;
    }
    // Calls `function` with each number, in ascending order. The function may remove that number.
    template <class Function>
    void for_each(Function&& function) const {
      for (int w = 0; w < count_; ++w)
        for (auto left = words_[w]; left != 0; left &= left - 1) function(32 * w + std::countr_zero(left));
    }

   private:
    static std::uint32_t bit_of_cache(int cache) { return std::uint32_t{1} << (cache & 31); }
    std::uint32_t* words_;
    int count_;
  };

  // `caches`: the number of caches, at most `max_caches`.
  explicit Directory(std::size_t caches)
      : words_(static_cast<int>((caches + 31) / 32)), stride_shift_(std::bit_width(static_cast<unsigned>(words_))) {
    resize(min_slots);
  }

  // Returns whether another granule needs a larger table, or one with fewer granules.
  bool is_full() const { return 2 * granules_ >= slots_; }
  // Returns the sharers of a granule, to be changed. The caller must leave at least one; the result is valid until the
  // next call.
  Sharers sharers_of(std::uint64_t number) {
    if (is_full()) [[unlikely]]
      grow();
    auto* const slot = find_slot(number);
    if (slot[0] == 0) {
      slot[0] = key_of(number);
      ++granules_;
    }
    return sharers_in(slot);
  }
  // Calls `function` with each sharer of a granule.
  template <class Function>
  void for_each(std::uint64_t number, Function&& function) {
    if (auto* const slot = find_slot(number); slot[0] != 0) sharers_in(slot).for_each(function);
  }
  // Drops all granules, and calls `add`, which must add those that have sharers. Afterwards there is room for as many
  // again.
  template <class Add>
  void rebuild(Add&& add) {
    std::fill_n(table_.get(), slots_ << stride_shift_, 0U);
    granules_ = 0;
    add();
    if (4 * granules_ > slots_) grow();
  }
  // Prefetches this granule's entry into the host's caches.
  NEARFIELD_ALWAYS_INLINE void host_prefetch(std::uint64_t number) const {
    __builtin_prefetch(slot_at(first_slot_index(number)), 1);
  }

 private:
  static constexpr std::size_t min_slots = 1 << 10;

  // A slot holds the key of a granule, or 0 if it is free, followed by the words of its sharers. Its length is a power
  // of two, so that it does not cross host cache lines.
  std::uint32_t* slot_at(std::size_t at) const { return table_.get() + (at << stride_shift_); }
  Sharers sharers_in(std::uint32_t* slot) const { return {slot + 1, words_}; }
  // Returns the number plus one, since 0 marks a free slot. It fits: a node has 2^37 bytes, and a granule at least 32.
  // Only the very last granule of a node with granules of 32 bytes gets 0, so that it may seem to have sharers that it
  // does not have.
  static std::uint32_t key_of(std::uint64_t number) { return static_cast<std::uint32_t>(number + 1); }

  void resize(std::size_t slots) {
    slots_ = slots;
    table_ = make_lazy_zero_array<std::uint32_t>(slots << stride_shift_, HostPages::large);
    shift_ = 64 - std::countr_zero(slots);
  }
  void grow() {
    const auto before = std::move(table_);
    const auto* const end = before.get() + (slots_ << stride_shift_);
    const auto stride = std::size_t{1} << stride_shift_;
    resize(2 * slots_);
    for (const auto* slot = before.get(); slot != end; slot += stride)
      if (slot[0] != 0) std::copy_n(slot, stride, find_slot(std::uint64_t{slot[0]} - 1));
  }
  std::size_t first_slot_index(std::uint64_t number) const {
    return static_cast<std::size_t>((number + 1) * 0x9E3779B97F4A7C15ULL >> shift_);
  }
  // Returns the slot of a granule, or the free slot for it.
  std::uint32_t* find_slot(std::uint64_t number) const {
    auto at = first_slot_index(number);
    while (slot_at(at)[0] != 0 && slot_at(at)[0] != key_of(number)) at = (at + 1) & (slots_ - 1);
    return slot_at(at);
  }

  int words_;  // 32 caches each
  int stride_shift_, shift_ = 0;
  std::size_t slots_ = 0, granules_ = 0;
  LazyZeroArray<std::uint32_t> table_;
};

}  // namespace nearfield::sim

// The directory of a coherence point lists the sharers of each granule: the caches that may hold the granule. A core's
// miss then snoops only the sharers. A sharer may meanwhile have lost the granule, but a cache that is not a sharer
// certainly does not hold it.
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

  // The sharers of one granule, by the caches' numbers at the coherence point: a bit set inside the table.
  class Sharers {
   public:
    Sharers(std::uint32_t* words, int num_words) : words_(words), num_words_(num_words) {}
    void add(int cache) { words_[cache >> 5] |= bit_of_cache(cache); }
    void remove(int cache) { words_[cache >> 5] &= ~bit_of_cache(cache); }
    bool is_only_sharer(int cache) const {
      std::uint32_t others = 0;
      for (int w = 0; w < num_words_; ++w) others |= words_[w] & ~(w == cache >> 5 ? bit_of_cache(cache) : 0U);
      return others == 0;
    }
    // Calls `function` with the number of each sharer, in ascending order. `function` may remove that sharer.
    template <class Function>
    void for_each(Function&& function) const {
      for (int w = 0; w < num_words_; ++w)
        for (auto remaining_bits = words_[w]; remaining_bits != 0; remaining_bits &= remaining_bits - 1)
          function(32 * w + std::countr_zero(remaining_bits));
    }

   private:
    static std::uint32_t bit_of_cache(int cache) { return std::uint32_t{1} << (cache & 31); }
    std::uint32_t* words_;
    int num_words_;
  };

  // `caches`: the number of caches, at most `max_caches`.
  explicit Directory(std::size_t caches)
      : words_per_slot_(static_cast<int>((caches + 31) / 32)),
        stride_shift_(std::bit_width(static_cast<unsigned>(words_per_slot_))) {
    resize(min_slots);
  }

  // Returns whether the hash table is half full, so that it must grow or be rebuilt before another granule is added.
  bool is_full() const { return 2 * num_granules_ >= num_slots_; }
  // Returns the sharers of a granule for modification; adds an entry if the granule has none. The caller must leave at
  // least one sharer. The result is valid until the next call.
  Sharers sharers_of(std::uint64_t granule_number) {
    if (is_full()) [[unlikely]]
      grow();
    auto* const slot = find_slot(granule_number);
    if (slot[0] == 0) {
      slot[0] = key_of(granule_number);
      ++num_granules_;
    }
    return sharers_in(slot);
  }
  // Calls `function` with each sharer of a granule.
  template <class Function>
  void for_each(std::uint64_t granule_number, Function&& function) {
    if (auto* const slot = find_slot(granule_number); slot[0] != 0) sharers_in(slot).for_each(function);
  }
  // Removes all granules, then calls `add`, which must add the granules that caches hold. Grows the table if these fill
  // more than a quarter of it.
  template <class Add>
  void rebuild(Add&& add) {
    std::fill_n(table_.get(), num_slots_ << stride_shift_, 0U);
    num_granules_ = 0;
    add();
    if (4 * num_granules_ > num_slots_) grow();
  }
  // Prefetches a granule's entry into the caches of the machine that runs the simulator.
  NEARFIELD_ALWAYS_INLINE void host_prefetch(std::uint64_t granule_number) const {
    __builtin_prefetch(slot_at(first_slot_index(granule_number)), 1);
  }

 private:
  static constexpr std::size_t min_slots = 1 << 10;

  // A slot of the hash table consists of the key of a granule, or 0 if the slot is free, and the bit set of its
  // sharers. The length of a slot is a power of two, so that no slot crosses a host cache line.
  std::uint32_t* slot_at(std::size_t index) const { return table_.get() + (index << stride_shift_); }
  Sharers sharers_in(std::uint32_t* slot) const { return {slot + 1, words_per_slot_}; }
  // Returns the granule number plus one, since 0 marks a free slot. The key fits into 32 bits: a node has 2^37 bytes,
  // and a granule at least 32. With granules of 32 bytes, the very last granule of a node gets key 0, and may seem to
  // have sharers that it does not have.
  static std::uint32_t key_of(std::uint64_t granule_number) { return static_cast<std::uint32_t>(granule_number + 1); }

  void resize(std::size_t slots) {
    num_slots_ = slots;
    table_ = make_lazy_zero_array<std::uint32_t>(slots << stride_shift_, HostPages::large);
    hash_shift_ = 64 - std::countr_zero(slots);
  }
  void grow() {
    const auto old_table = std::move(table_);
    const auto* const end = old_table.get() + (num_slots_ << stride_shift_);
    const auto stride = std::size_t{1} << stride_shift_;
    resize(2 * num_slots_);
    for (const auto* slot = old_table.get(); slot != end; slot += stride)
      if (slot[0] != 0) std::copy_n(slot, stride, find_slot(std::uint64_t{slot[0]} - 1));
  }
  std::size_t first_slot_index(std::uint64_t granule_number) const {
    return static_cast<std::size_t>((granule_number + 1) * 0x9E3779B97F4A7C15ULL >> hash_shift_);
  }
  // Returns the slot of a granule, or the free slot in which to add the granule.
  std::uint32_t* find_slot(std::uint64_t granule_number) const {
    auto index = first_slot_index(granule_number);
    while (slot_at(index)[0] != 0 && slot_at(index)[0] != key_of(granule_number))
      index = (index + 1) & (num_slots_ - 1);
    return slot_at(index);
  }

  int words_per_slot_;  // words of 32 caches each in the bit set of a slot
  int stride_shift_, hash_shift_ = 0;
  std::size_t num_slots_ = 0, num_granules_ = 0;
  LazyZeroArray<std::uint32_t> table_;
};

}  // namespace nearfield::sim

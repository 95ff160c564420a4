// A directory for the caches before a point where their paths meet: which of them may have a unit. A core's miss then
// asks these caches and not all of them. A cache that is named here may have lost the unit since; one that is not named
// does not have it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "sim/memory/lazy_zero_array.hpp"
#include "sim/memory/way_group.hpp"

namespace nearfield::sim {

class Holders {
 public:
  static constexpr std::size_t most_caches = 128;

  // Caches, by their numbers before the meeting point.
  class Set {
   public:
    Set(std::uint32_t* words, int count) : words_(words), count_(count) {}
    void add(int cache) { words_[cache >> 5] |= bit(cache); }
    void remove(int cache) { words_[cache >> 5] &= ~bit(cache); }
    bool is_only(int cache) const {
      std::uint32_t others = 0;
      for (int w = 0; w < count_; ++w) others |= words_[w] & ~(w == cache >> 5 ? bit(cache) : 0U);
      return others == 0;
    }
    // Calls `function` with each number, in ascending order. It may remove that one.
    template <class Function>
    void for_each(Function&& function) const {
      for (int w = 0; w < count_; ++w)
        for (auto left = words_[w]; left != 0; left &= left - 1) function(32 * w + std::countr_zero(left));
    }

   private:
    static std::uint32_t bit(int cache) { return std::uint32_t{1} << (cache & 31); }
    std::uint32_t* words_;
    int count_;
  };

  // `caches`: how many there are, at most `most_caches`.
  explicit Holders(std::size_t caches)
      : words_(static_cast<int>((caches + 31) / 32)), stride_shift_(std::bit_width(static_cast<unsigned>(words_))) {
    resize(smallest);
  }

  // Returns whether the next unit needs a longer table, or one with fewer units.
  bool full() const { return 2 * units_ >= slots_; }
  // Returns the holders of a unit, to be changed. It must have one in the end, and stays valid until the next call.
  Set of(std::uint64_t number) {
    if (full()) [[unlikely]]
      grow();
    auto* const slot = find(number);
    if (slot[0] == 0) {
      slot[0] = name(number);
      ++units_;
    }
    return set_in(slot);
  }
  // Calls `function` with each holder of a unit.
  template <class Function>
  void for_each(std::uint64_t number, Function&& function) {
    if (auto* const slot = find(number); slot[0] != 0) set_in(slot).for_each(function);
  }
  // Forgets all units, and calls `add`, which must add those that have holders. Afterwards there is room for as many more.
  template <class Add>
  void renew(Add&& add) {
    std::fill_n(table_.get(), slots_ << stride_shift_, 0U);
    units_ = 0;
    add();
    if (4 * units_ > slots_) grow();
  }
  // Tells the host that this unit's holders will be needed.
  NEARFIELD_INNERMOST void fetch_early(std::uint64_t number) const { __builtin_prefetch(slot_at(hash(number)), 1); }

 private:
  static constexpr std::size_t smallest = 1 << 10;

  // A slot has the name of a unit, or 0 if it is free, and then the words of its set. It is as long as a power of two, so
  // that it lies in one line of the host.
  std::uint32_t* slot_at(std::size_t at) const { return table_.get() + (at << stride_shift_); }
  Set set_in(std::uint32_t* slot) const { return {slot + 1, words_}; }
  // Returns the number plus one, since 0 stands for no unit. It fits: a node has 2^37 bytes, and a unit at least 32. Only
  // the very last unit of a node whose units have 32 bytes gets 0, so that it may seem to have holders that it has not.
  static std::uint32_t name(std::uint64_t number) { return static_cast<std::uint32_t>(number + 1); }

  void resize(std::size_t slots) {
    slots_ = slots;
    table_ = make_zeros<std::uint32_t>(slots << stride_shift_, HostPages::large);
    shift_ = 64 - std::countr_zero(slots);
  }
  void grow() {
    const auto before = std::move(table_);
    const auto* const end = before.get() + (slots_ << stride_shift_);
    const auto stride = std::size_t{1} << stride_shift_;
    resize(2 * slots_);
    for (const auto* slot = before.get(); slot != end; slot += stride)
      if (slot[0] != 0) std::copy_n(slot, stride, find(std::uint64_t{slot[0]} - 1));
  }
  std::size_t hash(std::uint64_t number) const {
    return static_cast<std::size_t>((number + 1) * 0x9E3779B97F4A7C15ULL >> shift_);
  }
  // Returns where a unit is, or the free slot for it.
  std::uint32_t* find(std::uint64_t number) const {
    auto at = hash(number);
    while (slot_at(at)[0] != 0 && slot_at(at)[0] != name(number)) at = (at + 1) & (slots_ - 1);
    return slot_at(at);
  }

  int words_;  // of 32 caches each
  int stride_shift_, shift_ = 0;
  std::size_t slots_ = 0, units_ = 0;
  Zeros<std::uint32_t> table_;
};

}  // namespace nearfield::sim

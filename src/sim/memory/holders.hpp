// A directory for the caches before a point where their paths meet: which of them may have a unit. A core's miss then
// asks these caches and not all of them. A cache that is named here may have lost the unit since; one that is not named
// does not have it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace nearfield::sim {

class Holders {
 public:
  static constexpr std::size_t most_caches = 128;

  // Caches, by their numbers before the meeting point.
  class Set {
   public:
    explicit Set(std::uint64_t* words) : words_(words) {}
    void add(int cache) { word(cache) |= bit(cache); }
    void remove(int cache) { word(cache) &= ~bit(cache); }
    bool is_only(int cache, int words) const {
      std::uint64_t others = words_[cache >> 6] & ~bit(cache);
      if (words > 1) others |= words_[1 - (cache >> 6)];
      return others == 0;
    }
    // Calls `function` with each number, in ascending order. It may remove that one.
    template <class Function>
    void for_each(int words, Function&& function) const {
      for (int w = 0; w < words; ++w)
        for (auto left = words_[w]; left != 0; left &= left - 1) function(64 * w + std::countr_zero(left));
    }

   private:
    std::uint64_t& word(int cache) { return words_[cache >> 6]; }
    static std::uint64_t bit(int cache) { return std::uint64_t{1} << (cache & 63); }
    std::uint64_t* words_;
  };

  explicit Holders(std::size_t caches) : words_(caches > 64 ? 2 : 1) { resize(smallest); }

  int words() const { return words_; }
  // Returns whether there is no room for a further unit: then tidy() must be called before of().
  bool full() const { return 2 * units_ >= numbers_.size(); }
  // Returns the holders of a unit, to be changed. It must have one in the end, and stays valid until the next call.
  Set of(std::uint64_t number) {
    const auto at = find(number);
    if (numbers_[at] == 0) {
      numbers_[at] = number + 1;
      ++units_;
    }
    return set_at(at);
  }
  // Calls `function` with each holder of a unit.
  template <class Function>
  void for_each(std::uint64_t number, Function&& function) {
    const auto at = find(number);
    if (numbers_[at] != 0) set_at(at).for_each(words_, function);
  }
  // Forgets holders that have their unit no longer, and makes room for as many units as are left.
  template <class Has>
  void tidy(Has&& has) {
    const auto numbers = std::move(numbers_);
    const auto sets = std::move(sets_);
    std::vector<std::size_t> left;
    std::vector<std::uint64_t> true_sets(sets.size());
    for (std::size_t at = 0; at < numbers.size(); ++at) {
      if (numbers[at] == 0) continue;
      const auto words = static_cast<std::size_t>(words_);
      std::uint64_t any = 0;
      for (std::size_t w = at * words; w < (at + 1) * words; ++w) {
        for (auto bits = sets[w]; bits != 0; bits &= bits - 1) {
          const int cache = static_cast<int>(64 * (w % words)) + std::countr_zero(bits);
          if (has(numbers[at] - 1, cache)) true_sets[w] |= bits & -bits;
        }
        any |= true_sets[w];
      }
      if (any) left.push_back(at);
    }
    resize(std::bit_ceil(std::max(smallest, 4 * left.size())));
    for (const auto at : left) {
      const auto to = find(numbers[at] - 1);
      numbers_[to] = numbers[at];
      for (int w = 0; w < words_; ++w) sets_[word_at(to, w)] = true_sets[word_at(at, w)];
    }
    units_ = left.size();
  }
  void clear() { resize(smallest); }

 private:
  static constexpr std::size_t smallest = 1 << 10;

  void resize(std::size_t slots) {
    numbers_.assign(slots, 0);
    sets_.assign(slots * static_cast<std::size_t>(words_), 0);
    shift_ = 64 - std::countr_zero(slots);
    units_ = 0;
  }
  // Returns where a unit is, or the free place for it.
  std::size_t find(std::uint64_t number) const {
    auto at = static_cast<std::size_t>((number + 1) * 0x9E3779B97F4A7C15ULL >> shift_);
    while (numbers_[at] != 0 && numbers_[at] != number + 1) at = (at + 1) & (numbers_.size() - 1);
    return at;
  }
  std::size_t word_at(std::size_t at, int word) const {
    return at * static_cast<std::size_t>(words_) + static_cast<std::size_t>(word);
  }
  Set set_at(std::size_t at) { return Set(&sets_[word_at(at, 0)]); }

  int words_;  // of 64 caches each
  int shift_ = 0;
  std::size_t units_ = 0;
  std::vector<std::uint64_t> numbers_;  // of units, plus one; 0: free
  std::vector<std::uint64_t> sets_;     // words_ for each
};

}  // namespace nearfield::sim

// Reuse distances (LRU stack distances) of a rank's accesses: the bytes of different cache lines touched since a
// moment. A fully associative LRU cache larger than that still contains what was touched then.
//
// Lines are sampled by a hash of their addresses (SHARDS: Waldspurger, Park, Garthwaite and Ahmad, FAST 2015): every
// access to a sampled line counts, others do not. Initially all lines are sampled; the sample is halved whenever it
// exceeds `max_lines`: small programs are counted exactly, large ones in bounded memory, with a relative error of about
// 1 / sqrt(sampled lines touched). Moments are numbered; a new one begins after `lines_each` sampled lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nearfield::advise {

using Moment = std::uint64_t;

class ReuseDistance {
 public:
  static constexpr std::size_t default_max_lines = 1 << 15;

  // `max_lines`: a power of two. Throws std::invalid_argument otherwise.
  explicit ReuseDistance(std::size_t max_lines = default_max_lines, unsigned lines_each = 4);

  // Records an access to a line (an address divided by the line size).
  void touch(std::uint64_t line) {
    if (line == last_) return;
    last_ = line;
    const std::uint64_t hash = hash_of(line);
    if (hash < threshold_) touch_sampled(line, hash);
  }
  Moment now() const { return first_new_ + (current_ - known_.size()); }
  // Returns the number of lines touched after that moment.
  double lines_since(Moment moment) const;
  // Returns the sampling rate.
  double rate() const { return static_cast<double>(threshold_) / static_cast<double>(all); }

 private:
  static constexpr std::uint64_t all = 1ULL << 32, none = ~0ULL;
  struct Slot {
    std::uint64_t line = none;
    std::uint32_t place = 0;  // of its last access
  };
  static std::uint64_t hash_of(std::uint64_t line) {
    line *= 0x9E3779B97F4A7C15ULL;
    return (line ^ line >> 29) * 0xBF58476D1CE4E5B9ULL >> 32;
  }

  void touch_sampled(std::uint64_t line, std::uint64_t hash);
  Slot& slot_of(std::uint64_t line, std::uint64_t hash);
  void shrink();
  void compact();
  void add(std::uint32_t place, std::int32_t lines);
  std::uint64_t up_to(std::uint32_t place) const;

  std::uint64_t threshold_ = all, last_ = none;
  std::size_t max_lines_;
  unsigned lines_each_, moved_ = 0;
  std::vector<Slot> slots_;
  std::size_t lines_ = 0;  // in slots_
  // Moments have places in a Fenwick tree of counts. When the tree is full, places of moments at which no line was last
  // touched are freed: known_ has the moments of the first places, in order; the places after them continue from
  // first_new_.
  std::vector<std::uint32_t> tree_;
  std::vector<Moment> known_;
  Moment first_new_ = 0;
  std::uint32_t current_ = 0;
};

}  // namespace nearfield::advise

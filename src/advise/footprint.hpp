// How many bytes of different cache lines a rank touched since some moment: the LRU stack distance of what was touched
// then. A fully associative cache of more bytes than that still has it.
//
// Lines are sampled by a hash of their addresses (SHARDS: Waldspurger, Park, Garthwaite and Ahmad, FAST 2015): of a line
// that is in the sample every access counts, of others none. The sample is everything at first, and is halved whenever
// it has more than `most_lines`: small programs are counted exactly, large ones in bounded memory, with a relative error
// of about 1 / sqrt(sampled lines touched). Moments are numbered; a new one begins after `lines_each` sampled lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nearfield::advise {

using Moment = std::uint64_t;

class Footprint {
 public:
  static constexpr std::size_t usual_lines = 1 << 15;

  // `most_lines`: a power of two. Throws std::invalid_argument otherwise.
  explicit Footprint(std::size_t most_lines = usual_lines, unsigned lines_each = 4);

  // The line (an address over the bytes of a line) is touched now.
  void touch(std::uint64_t line) {
    if (line == last_) return;
    last_ = line;
    const std::uint64_t hash = hash_of(line);
    if (hash < threshold_) touch_sampled(line, hash);
  }
  Moment now() const { return first_new_ + (current_ - known_.size()); }
  // Returns how many lines were touched after that moment.
  double lines_since(Moment moment) const;
  // Returns the share of lines that are sampled.
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
  std::size_t most_lines_;
  unsigned lines_each_, moved_ = 0;
  std::vector<Slot> slots_;
  std::size_t lines_ = 0;  // in slots_
  // Moments have places in a Fenwick tree of counts. Places of moments at which no line was touched last are given up
  // when the tree is full: known_ has the moments of the first places, in order; the places after them go on from
  // first_new_.
  std::vector<std::uint32_t> tree_;
  std::vector<Moment> known_;
  Moment first_new_ = 0;
  std::uint32_t current_ = 0;
};

}  // namespace nearfield::advise

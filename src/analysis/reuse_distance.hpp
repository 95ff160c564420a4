// Reuse distances (LRU stack distances) of a rank's accesses: the number of distinct cache lines accessed since a
// moment. A fully associative LRU cache with more lines still contains what was accessed at that moment.
//
// Lines are sampled by a hash of their addresses (SHARDS: Waldspurger, Park, Garthwaite and Ahmad, FAST 2015): every
// access to a sampled line counts, accesses to other lines do not. Initially all lines are sampled; whenever the sample
// exceeds `max_lines`, it is halved. So distances in small programs are exact; those in large programs take bounded
// memory and have a relative error of about 1 / sqrt(sampled lines touched). A moment is a number; a new moment begins
// after `lines_per_moment` accesses to sampled lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nearfield::advise {

using Moment = std::uint64_t;

class ReuseDistance {
 public:
  static constexpr std::size_t default_max_lines = 1 << 15;

  // `max_lines` must be a power of two; throws std::invalid_argument otherwise.
  explicit ReuseDistance(std::size_t max_lines = default_max_lines, unsigned lines_per_moment = 4);

  // Records an access to a line (an address divided by the line size).
  void record_access(std::uint64_t line) {
    if (line == last_) return;
    last_ = line;
    const std::uint64_t hash = hash_of(line);
    if (hash < threshold_) record_sampled_access(line, hash);
  }
  Moment current_moment() const { return first_new_ + (current_ - known_.size()); }
  // Returns the number of distinct lines accessed after that moment, extrapolated from the sample.
  double lines_since(Moment moment) const;
  // Returns the share of all lines that is sampled, at most 1.
  double sampling_rate() const { return static_cast<double>(threshold_) / static_cast<double>(all); }

 private:
  static constexpr std::uint64_t all = 1ULL << 32, none = ~0ULL;
  struct LineSlot {
    std::uint64_t line = none;
    std::uint32_t place = 0;  // place of the line's last access in the Fenwick tree
  };
  static std::uint64_t hash_of(std::uint64_t line) {
    line *= 0x9E3779B97F4A7C15ULL;
    return (line ^ line >> 29) * 0xBF58476D1CE4E5B9ULL >> 32;
  }

  void record_sampled_access(std::uint64_t line, std::uint64_t hash);
  LineSlot& slot_of(std::uint64_t line, std::uint64_t hash);
  void shrink();
  void compact();
  void add(std::uint32_t place, std::int32_t lines);
  std::uint64_t lines_up_to(std::uint32_t place) const;

  std::uint64_t threshold_ = all, last_ = none;
  std::size_t max_lines_;
  unsigned lines_per_moment_, moved_ = 0;
  std::vector<LineSlot> slots_;
  std::size_t lines_ = 0;  // number of lines in slots_
  // A Fenwick tree counts, at the place of each moment, the lines whose last access was at that moment. When the tree
  // is full, compact() frees the places without lines: known_ has the moments of the first places, ascending; the
  // places after them are those of the moments from first_new_ on.
  std::vector<std::uint32_t> tree_;
  std::vector<Moment> known_;
  Moment first_new_ = 0;
  std::uint32_t current_ = 0;
};

}  // namespace nearfield::advise

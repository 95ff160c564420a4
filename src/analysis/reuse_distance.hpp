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
    if (line == last_line_) return;
    last_line_ = line;
    const std::uint64_t hash = hash_of(line);
    if (hash < sampled_hash_limit_) record_sampled_access(line, hash);
  }
  Moment current_moment() const { return first_uncompacted_moment_ + (current_place_ - compacted_moments_.size()); }
  // Returns the number of distinct lines accessed after that moment, extrapolated from the sample.
  double lines_since(Moment moment) const;
  // Returns the share of all lines that is sampled, at most 1.
  double sampling_rate() const { return static_cast<double>(sampled_hash_limit_) / static_cast<double>(hash_range); }

 private:
  static constexpr std::uint64_t hash_range = 1ULL << 32, no_line = ~0ULL;
  struct LineSlot {
    std::uint64_t line = no_line;
    std::uint32_t last_access_place = 0;  // place of the line's last access in the Fenwick tree
  };
  static std::uint64_t hash_of(std::uint64_t line) {
    line *= 0x9E3779B97F4A7C15ULL;
    return (line ^ line >> 29) * 0xBF58476D1CE4E5B9ULL >> 32;
  }

  void record_sampled_access(std::uint64_t line, std::uint64_t hash);
  LineSlot& find_slot(std::uint64_t line, std::uint64_t hash);
  void halve_sampling_rate();
  void compact_places();
  void add_to_tree(std::uint32_t place, std::int32_t lines);
  std::uint64_t lines_in_first_places(std::uint32_t place) const;

  std::uint64_t sampled_hash_limit_ = hash_range, last_line_ = no_line;
  std::size_t max_lines_;
  unsigned lines_per_moment_, lines_in_current_moment_ = 0;
  std::vector<LineSlot> slots_;
  std::size_t num_sampled_lines_ = 0;  // number of lines in slots_
  // A Fenwick tree counts, at the place of each moment, the lines whose last access was at that moment. When the tree
  // is full, compact_places() frees the places without lines: compacted_moments_ lists the moments of the first places
  // in ascending order; the places after them are those of the moments from first_uncompacted_moment_ on.
  std::vector<std::uint32_t> fenwick_tree_;
  std::vector<Moment> compacted_moments_;
  Moment first_uncompacted_moment_ = 0;
  std::uint32_t current_place_ = 0;
};

}  // namespace nearfield::advise

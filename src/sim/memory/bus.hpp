// A bus that carries one access at a time, at one memory speed. Accesses do not come in the order of time: one of a core
// that waits for a slot may be ahead of those of other cores, which then take the time that it left free.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "sim/times.hpp"

namespace nearfield::sim {

class Bus {
 public:
  // Takes the bus for an access that may begin at `start`, in the gaps between those of earlier calls, in several pieces
  // if one gap is too short. Returns when the last piece ends, less `takes`.
  Ps occupy(Ps start, Ps takes) {
    if (start >= free_) {
      if (start > free_) remember({free_, start});
      free_ = start + takes;
      return start;
    }
    Ps left = takes, end = start;
    for (auto which = first_that_ends_after(start); which < gaps_ && left > 0;) {
      const Gap found = gap(which);
      const Ps begun = std::max(start, found.begin);
      end = std::min(begun + left, found.end);
      left -= end - begun;
      which = cut(which, begun, end);
    }
    if (left > 0) end = free_ += left;
    return end - takes;
  }
  // Takes the bus behind all others; nobody waits for it.
  void append(Ps takes) { free_ += takes; }

 private:
  struct Gap {
    Ps begin, end;
  };
  // As many as cores that share a memory are apart by some lines each. The oldest is forgotten for a new one.
  static constexpr std::size_t most_gaps = 64;

  Gap& gap(std::size_t which) { return gap_[(oldest_ + which) % most_gaps]; }
  void remember(const Gap& last) {
    if (gaps_ == most_gaps) ++oldest_, --gaps_;
    gap(gaps_++) = last;
  }
  std::size_t first_that_ends_after(Ps time) {
    std::size_t low = 0, high = gaps_;
    while (low < high) {
      const auto middle = (low + high) / 2;
      if (gap(middle).end > time)
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }
  // Takes a piece out of a gap, and returns which gap comes next.
  std::size_t cut(std::size_t which, Ps begun, Ps end) {
    const Gap before{gap(which).begin, begun}, after{end, gap(which).end};
    const bool has_before = before.end > before.begin, has_after = after.end > after.begin;
    if (has_before && has_after) insert(which + 1, after);
    if (!has_before && !has_after) {
      remove(which);
      return which;
    }
    gap(which) = has_before ? before : after;
    return which + 1;
  }
  void insert(std::size_t which, const Gap& added) {
    if (gaps_ == most_gaps) return;
    for (auto next = gaps_++; next > which; --next) gap(next) = gap(next - 1);
    gap(which) = added;
  }
  void remove(std::size_t which) {
    for (--gaps_; which < gaps_; ++which) gap(which) = gap(which + 1);
  }

  Ps free_ = 0;
  std::size_t oldest_ = 0, gaps_ = 0;
  std::array<Gap, most_gaps> gap_{};  // a ring, in the order of time
};

}  // namespace nearfield::sim

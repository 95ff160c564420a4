// A bus that carries one access at a time, at every memory speed. Accesses do not come in the order of time: one of a
// core that waits for a slot may be ahead of those of other cores, which then take the time that it left free.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "sim/times.hpp"

namespace nearfield::sim {

// timing_kernel.hpp; by the host's instructions
namespace plain {
struct TimingSteps;
}
namespace wide {
struct TimingSteps;
}

// The times at which a bus was free, at one memory speed, in the order of time.
class Gaps {
 public:
  // Adds a gap, which must be later than all others.
  void add(Ps begin, Ps end) {
    if (gaps_ == most) ++oldest_, --gaps_;
    gap(gaps_++) = {begin, end};
  }
  // Fills up to `takes` of gaps from `start` on, in several pieces if one is too short. Returns what is left of `takes`,
  // and sets `end` to the end of the last piece.
  Ps fill(Ps start, Ps takes, Ps& end) {
    for (auto which = first_that_ends_after(start); which < gaps_ && takes > 0;) {
      const Gap found = gap(which);
      const Ps begun = std::max(start, found.begin);
      end = std::min(begun + takes, found.end);
      takes -= end - begun;
      which = cut(which, begun, end);
    }
    return takes;
  }
  Ps last_end() { return gaps_ > 0 ? gap(gaps_ - 1).end : 0; }

 private:
  struct Gap {
    Ps begin, end;
  };
  // As many as cores that share a memory are apart by some lines each. The oldest is forgotten for a new one.
  static constexpr std::size_t most = 64;

  Gap& gap(std::size_t which) { return gap_[(oldest_ + which) % most]; }
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
    if (gaps_ == most) return;
    for (auto next = gaps_++; next > which; --next) gap(next) = gap(next - 1);
    gap(which) = added;
  }
  void remove(std::size_t which) {
    for (--gaps_; which < gaps_; ++which) gap(which) = gap(which + 1);
  }

  std::size_t oldest_ = 0, gaps_ = 0;
  std::array<Gap, most> gap_{};  // a ring
};

class Bus {
 public:
  // Takes the bus for an access that may begin at `start`: in gaps between those of earlier calls if there are any so
  // late, else behind them. Returns when the access ends, less `takes`.
  Times occupy(const Times& start, const Times& takes) {
    if (!all_at_least(start, last_gap_ends_)) [[unlikely]]
      return occupy_gaps(start, takes);
    const Times begun = later(start, free_);
    if (!(begun == free_)) remember(start);
    free_ = begun + takes;
    return begun;
  }
  // Takes the bus behind all others; nobody waits for it.
  void append(const Times& takes) { free_ += takes; }
  // Returns whether it is free from exactly this time on.
  bool is_free_from(const Times& time) const { return free_ == time && all_at_least(time, last_gap_ends_); }

 private:
  friend struct plain::TimingSteps;
  friend struct wide::TimingSteps;
  void remember(const Times& start) {
    for (std::size_t l = 0; l < speeds; ++l)
      if (start.at[l] > free_.at[l]) {
        gaps_[l].add(free_.at[l], start.at[l]);
        last_gap_ends_.at[l] = start.at[l];
      }
  }
  Times occupy_gaps(const Times& start, const Times& takes) {
    Times begun;
    for (std::size_t l = 0; l < speeds; ++l) {
      const Ps wanted = takes.at[l];
      Ps &free = free_.at[l], end = start.at[l];
      if (end >= free) {
        if (end > free) gaps_[l].add(free, end);
        free = end += wanted;
      } else if (const Ps left = gaps_[l].fill(start.at[l], wanted, end); left > 0) {
        end = free += left;
      }
      begun.at[l] = end - wanted;
      last_gap_ends_.at[l] = gaps_[l].last_end();
    }
    return begun;
  }

  Times free_, last_gap_ends_;
  std::array<Gaps, speeds> gaps_;
};

}  // namespace nearfield::sim

// A bus that carries one access at a time, simulated at every memory speed. Reservations do not arrive in time order:
// an access that waits for a miss slot may start later than accesses of other cores that are simulated after it. Those
// accesses then use the intervals that the bus left free.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "sim/engine/time_vector.hpp"

namespace nearfield::sim {

// Defined in timing_kernel.hpp, once per instruction set of the host.
namespace plain {
struct TimingKernel;
}
namespace wide {
struct TimingKernel;
}

// The free intervals of a bus at one memory speed, in time order.
class FreeIntervals {
 public:
  // Adds a free interval, which must be later than all stored ones. If the ring buffer is full, drops the oldest
  // interval.
  void add(Ps begin, Ps end) {
    if (count_ == capacity) ++oldest_, --count_;
    interval_at(count_++) = {begin, end};
  }
  // Reserves up to `duration` of the free time from `start` on, split over several intervals if necessary. Sets `end`
  // to the end of the last reserved piece, if any. Returns the part of `duration` that did not fit.
  Ps reserve_within(Ps start, Ps duration, Ps& end) {
    for (auto which = first_interval_ending_after(start); which < count_ && duration > 0;) {
      const Interval found = interval_at(which);
      const Ps begun = std::max(start, found.begin);
      end = std::min(begun + duration, found.end);
      duration -= end - begun;
      which = cut_interval(which, begun, end);
    }
    return duration;
  }
  Ps end_of_last_interval() { return count_ > 0 ? interval_at(count_ - 1).end : 0; }

 private:
  struct Interval {
    Ps begin, end;
  };
  // Sufficient if cores that share a memory run at most some lines ahead of one another. If full, a new interval
  // replaces the oldest one.
  static constexpr std::size_t capacity = 64;

  Interval& interval_at(std::size_t which) { return intervals_[(oldest_ + which) % capacity]; }
  std::size_t first_interval_ending_after(Ps time) {
    std::size_t low = 0, high = count_;
    while (low < high) {
      const auto middle = (low + high) / 2;
      if (interval_at(middle).end > time)
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }
  // Removes [begun, end) from a free interval. Returns the index of the next interval.
  std::size_t cut_interval(std::size_t which, Ps begun, Ps end) {
    const Interval before{interval_at(which).begin, begun}, after{end, interval_at(which).end};
    const bool has_before = before.end > before.begin, has_after = after.end > after.begin;
    if (has_before && has_after) insert(which + 1, after);
    if (!has_before && !has_after) {
      remove(which);
      return which;
    }
    interval_at(which) = has_before ? before : after;
    return which + 1;
  }
  void insert(std::size_t which, const Interval& added) {
    if (count_ == capacity) return;
    for (auto next = count_++; next > which; --next) interval_at(next) = interval_at(next - 1);
    interval_at(which) = added;
  }
  void remove(std::size_t which) {
    for (--count_; which < count_; ++which) interval_at(which) = interval_at(which + 1);
  }

  std::size_t oldest_ = 0, count_ = 0;
  std::array<Interval, capacity> intervals_{};  // ring buffer
};

class Bus {
 public:
  // Reserves the bus for an access that may begin at `start`: in free intervals between earlier reservations if there
  // are any after `start`, otherwise after the last reservation. Returns the end of the access minus `duration`, at
  // each memory speed.
  TimeVector reserve(const TimeVector& start, const TimeVector& duration) {
    if (!all_at_least(start, last_free_end_)) [[unlikely]]
      return reserve_free_interval(start, duration);
    const TimeVector begun = later(start, free_);
    if (!(begun == free_)) record_free_interval(start);
    free_ = begun + duration;
    return begun;
  }
  // Appends a reservation after all others, for a transfer that no core waits for.
  void append_reservation(const TimeVector& duration) { free_ += duration; }
  // Returns whether the bus becomes free exactly at `time` and has no free interval after `time`, at every memory
  // speed.
  bool becomes_free_at(const TimeVector& time) const { return free_ == time && all_at_least(time, last_free_end_); }

 private:
  friend struct plain::TimingKernel;
  friend struct wide::TimingKernel;
  void record_free_interval(const TimeVector& start) {
    for (std::size_t l = 0; l < num_memory_speeds; ++l)
      if (start.at[l] > free_.at[l]) {
        free_intervals_[l].add(free_.at[l], start.at[l]);
        last_free_end_.at[l] = start.at[l];
      }
  }
  TimeVector reserve_free_interval(const TimeVector& start, const TimeVector& duration) {
    TimeVector begun;
    for (std::size_t l = 0; l < num_memory_speeds; ++l) {
      const Ps wanted = duration.at[l];
      Ps &free = free_.at[l], end = start.at[l];
      if (end >= free) {
        if (end > free) free_intervals_[l].add(free, end);
        free = end += wanted;
      } else if (const Ps left = free_intervals_[l].reserve_within(start.at[l], wanted, end); left > 0) {
        end = free += left;
      }
      begun.at[l] = end - wanted;
      last_free_end_.at[l] = free_intervals_[l].end_of_last_interval();
    }
    return begun;
  }

  TimeVector free_, last_free_end_;
  std::array<FreeIntervals, num_memory_speeds> free_intervals_;
};

}  // namespace nearfield::sim

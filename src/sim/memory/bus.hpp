// A bus that carries one access at a time, simulated at every memory speed. Reservations are not made in the order of
// their start times: an access that waits for a miss slot may start later than accesses of other cores that are
// simulated after it. Those accesses use the intervals in which the bus is still free.
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
    if (num_intervals_ == capacity) ++oldest_index_, --num_intervals_;
    interval_at(num_intervals_++) = {begin, end};
  }
  // Reserves up to `duration` of the free time from `start` on, split over several intervals if necessary. If anything
  // is reserved, sets `end` to the end of the last reserved piece. Returns the part of `duration` that did not fit.
  Ps reserve_within(Ps start, Ps duration, Ps& end) {
    for (auto index = first_interval_ending_after(start); index < num_intervals_ && duration > 0;) {
      const Interval interval = interval_at(index);
      const Ps begin = std::max(start, interval.begin);
      end = std::min(begin + duration, interval.end);
      duration -= end - begin;
      index = cut_interval(index, begin, end);
    }
    return duration;
  }
  Ps end_of_last_interval() { return num_intervals_ > 0 ? interval_at(num_intervals_ - 1).end : 0; }

 private:
  struct Interval {
    Ps begin, end;
  };
  // Sufficient as long as cores that share a memory run ahead of one another by a few lines only.
  static constexpr std::size_t capacity = 64;

  Interval& interval_at(std::size_t index) { return intervals_[(oldest_index_ + index) % capacity]; }
  std::size_t first_interval_ending_after(Ps time) {
    std::size_t low = 0, high = num_intervals_;
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
  std::size_t cut_interval(std::size_t index, Ps begin, Ps end) {
    const Interval left_part{interval_at(index).begin, begin}, right_part{end, interval_at(index).end};
    const bool has_left_part = left_part.end > left_part.begin, has_right_part = right_part.end > right_part.begin;
    if (has_left_part && has_right_part) insert(index + 1, right_part);
    if (!has_left_part && !has_right_part) {
      remove(index);
      return index;
    }
    interval_at(index) = has_left_part ? left_part : right_part;
    return index + 1;
  }
  void insert(std::size_t index, const Interval& added) {
    if (num_intervals_ == capacity) return;
    for (auto next = num_intervals_++; next > index; --next) interval_at(next) = interval_at(next - 1);
    interval_at(index) = added;
  }
  void remove(std::size_t index) {
    for (--num_intervals_; index < num_intervals_; ++index) interval_at(index) = interval_at(index + 1);
  }

  std::size_t oldest_index_ = 0, num_intervals_ = 0;
  std::array<Interval, capacity> intervals_{};  // ring buffer
};

class Bus {
 public:
  // Reserves the bus for an access that may begin at `start`: in the free intervals after `start`, and what does not
  // fit there after the last reservation. Returns the end of the access minus `duration`, at each memory speed.
  TimeVector reserve(const TimeVector& start, const TimeVector& duration) {
    if (!all_at_least(start, last_free_end_)) [[unlikely]]
      return reserve_free_interval(start, duration);
    const TimeVector begin = later(start, free_);
    if (!(begin == free_)) record_free_interval(start);
    free_ = begin + duration;
    return begin;
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
    TimeVector begin;
    for (std::size_t l = 0; l < num_memory_speeds; ++l) {
      const Ps access_time = duration.at[l];
      Ps &free = free_.at[l], end = start.at[l];
      if (end >= free) {
        if (end > free) free_intervals_[l].add(free, end);
        free = end += access_time;
      } else if (const Ps remaining_time = free_intervals_[l].reserve_within(start.at[l], access_time, end);
                 remaining_time > 0) {
        end = free += remaining_time;
      }
      begin.at[l] = end - access_time;
      last_free_end_.at[l] = free_intervals_[l].end_of_last_interval();
    }
    return begin;
  }

  TimeVector free_, last_free_end_;
  std::array<FreeIntervals, num_memory_speeds> free_intervals_;
};

}  // namespace nearfield::sim

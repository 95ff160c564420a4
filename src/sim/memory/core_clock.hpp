// The timing state of one core: its clock, and the accesses that are in flight.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "sim/engine/time_vector.hpp"
#include "sim/memory/access.hpp"
#include "sim/memory/timing_constants.hpp"
#include "sim/memory/way_group.hpp"

namespace nearfield::sim {

// The arrival times of one core's prefetched lines, by address (a fill buffer): the last 64 lines that were not used
// yet.
class InFlightLines {
 public:
  static constexpr int capacity = 64;
  static constexpr std::size_t num_buckets = 256;

  InFlightLines() { first_.fill(none); }

  // Most cores of a machine never prefetch, so entries are not allocated before allocate().
  bool is_unallocated() const { return entries_.empty(); }
  void allocate() { entries_.resize(capacity); }

  NEARFIELD_ALWAYS_INLINE void add(Address line, const TimeVector& arrival) {
    if (valid_entries_ >> oldest_ & 1) unlink(oldest_);
    valid_entries_ |= std::uint64_t{1} << oldest_;
    entries_[oldest_] = {arrival, line};
    auto& first = first_[bucket_of(line)];
    next_[oldest_] = first;
    first = oldest_;
    oldest_ = (oldest_ + 1) % capacity;
  }
  static std::size_t bucket_of(Address line) { return line * 0x9E3779B97F4A7C15ULL >> 56; }
  bool may_contain(Address line) const { return first_[bucket_of(line)] != none; }
  // Returns the later of `now` and the line's arrival, and removes the line.
  NEARFIELD_ALWAYS_INLINE TimeVector consume(Address line, TimeVector now) {
    for (auto* link = &first_[bucket_of(line)]; *link != none;) {
      const auto entry = *link;
      if (entries_[entry].line != line) {
        link = &next_[entry];
        continue;
      }
      now = later(now, entries_[entry].arrival);
      valid_entries_ &= ~(std::uint64_t{1} << entry);
      *link = next_[entry];
    }
    return now;
  }

 private:
  static constexpr std::uint8_t none = 0xFF;
  struct Entry {
    TimeVector arrival;
    Address line = 0;
  };

  NEARFIELD_ALWAYS_INLINE void unlink(std::uint8_t entry) {
    auto* link = &first_[bucket_of(entries_[entry].line)];
    while (*link != entry) link = &next_[*link];
    *link = next_[entry];
  }

  std::vector<Entry> entries_;                   // ring buffer
  std::uint64_t valid_entries_ = 0;              // a bit for each entry whose line was not used yet
  std::array<std::uint8_t, capacity> next_{};    // the next entry in the same bucket
  std::array<std::uint8_t, num_buckets> first_;  // the first entry of each bucket
  std::uint8_t oldest_ = 0;
};

// The completion times of the accesses of one kind that can be in flight at a time (MSHRs). A further access waits for
// the first completion and reuses its slot.
class MissSlots {
 public:
  void resize(int slots) {
    completion_times_.resize(static_cast<std::size_t>(slots));
    last_ = completion_times_.size() - 1;
    first_ = 0;
  }
  // Returns when the next slot becomes free.
  const TimeVector& next_free_time() const { return completion_times_[first_]; }
  // Returns the latest completion time.
  const TimeVector& last_completion_time() const { return completion_times_[first_ == 0 ? last_ : first_ - 1]; }
  // Occupies the next slot for an access that completes after all others. Returns a reference to the slot's completion
  // time, which the caller must set.
  TimeVector& take_next_slot() {
    auto& slot = completion_times_[first_];
    first_ = first_ == last_ ? 0 : first_ + 1;
    return slot;
  }
  // Occupies the next slot for an access that completes at `completion`. Keeps the ring sorted by completion time,
  // separately for each memory speed.
  void insert(TimeVector completion) {
    std::size_t at = first_;
    take_next_slot();
    for (std::size_t left = last_; left > 0; --left) {
      auto& before = completion_times_[at == 0 ? last_ : at - 1];
      const TimeVector last = later(before, completion);
      if (last == completion) break;
      completion_times_[at] = last;
      completion = earlier(before, completion);
      at = at == 0 ? last_ : at - 1;
    }
    completion_times_[at] = completion;
  }
  const std::vector<TimeVector>& completion_times() const { return completion_times_; }

 private:
  std::vector<TimeVector> completion_times_;  // ring buffer
  std::size_t first_ = 0, last_ = 0;
};

// The outstanding loads that may fill the instruction window (ROB), oldest first. The stall index of a load is the
// number of the first instruction that cannot be issued before the load's data arrives.
class ReorderWindow {
 public:
  static constexpr Count never = ~Count{0};

  // At most `max_loads` loads are in flight at a time.
  void resize(int max_loads) {
    max_loads_ = static_cast<std::size_t>(max_loads);
    loads_.resize(1);
  }
  Count stall_index() const { return stall_index_; }
  bool is_full() const { return next_ - first_ == capacity_; }  // then grow() must be called before the next add()
  // Makes room for another load: lengthens the ring buffer or, if the ring has room for `max_loads` loads already,
  // drops the oldest load.
  void grow() {
    if (capacity_ == max_loads_) {
      pop();
      return;
    }
    std::vector<Load> longer(2 * loads_.size());
    for (auto load = first_; load < next_; ++load)
      longer[load & (longer.size() - 1)] = loads_[load & (loads_.size() - 1)];
    loads_.swap(longer);
    capacity_ = std::min(loads_.size(), max_loads_);
  }
  // Adds a load. Returns a reference to the arrival time of the load's data, which the caller must set.
  NEARFIELD_ALWAYS_INLINE TimeVector& add(Count stall_index) {
    if (next_ == first_) stall_index_ = stall_index;
    auto& load = loads_[next_++ & (loads_.size() - 1)];
    load.stall_index = stall_index;
    return load.arrival;
  }
  // Removes the oldest load. Returns the time at which its data arrives.
  const TimeVector& pop() {
    const TimeVector& arrival = loads_[first_ & (loads_.size() - 1)].arrival;
    ++first_;
    stall_index_ = first_ < next_ ? loads_[first_ & (loads_.size() - 1)].stall_index : never;
    return arrival;
  }

 private:
  struct Load {
    Count stall_index = never;
    TimeVector arrival;
  };

  std::vector<Load> loads_;  // ring buffer
  std::size_t max_loads_ = 1, capacity_ = 1;
  std::size_t first_ = 0, next_ = 0;  // positions, counted over all loads so far
  Count stall_index_ = never;         // of the oldest load
};

// The clock of one core and its accesses in flight.
struct CoreClock {
  CoreClock(const Machine& machine, const TimingConstants& constants, int core);

  int core;
  TimeVector now;
  Count issued = 0;  // instructions issued so far
  MissSlots miss_slots, nontemporal_slots;
  MissSlots prefetch_slots;  // if the prefetcher has slots of its own
  MissSlots walk_slots;      // if TLB misses overlap
  MissSlots transfer_slots;  // if lines from other caches have a limit of their own
  ReorderWindow window;
  TimeVector index;                   // arrival of the data of the last index load that missed
  TimeVector nontemporal_completion;  // completion of all non-temporal accesses
  std::array<TimeVector, max_cache_levels + 1> port_free;
  InFlightLines in_flight;
};

}  // namespace nearfield::sim

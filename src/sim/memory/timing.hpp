// The clocks of a node's cores: the time of an access, given which level supplied its line. A core issues one access
// per Core::cycles_per_access. Loads and stores that miss proceed in the background, at most Core::outstanding_misses
// at a time; non-temporal accesses likewise, at most Core::outstanding_bypass at a time. Prefetches also proceed in the
// background: they occupy miss slots, unless the prefetcher has slots of its own, and an access to a line that is being
// prefetched occupies no further slot. No instruction is issued Core::window instructions after a load whose data has
// not arrived. A chase waits for its data, a gather for the data of the index load before it. A TLB miss stops the
// core. With Pages::walkers, up to that number of TLB misses are in flight together with the accesses that need them,
// and only a chase waits.
#pragma once

#include <algorithm>
#include <vector>

#include "sim/memory/dram.hpp"
#include "sim/memory/hierarchy.hpp"
#include "sim/memory/links.hpp"
#include "sim/memory/sockets.hpp"
#include "sim/memory/timing_events.hpp"

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
    if (valid_ >> oldest_ & 1) unlink(oldest_);
    valid_ |= std::uint64_t{1} << oldest_;
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
      valid_ &= ~(std::uint64_t{1} << entry);
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
  std::uint64_t valid_ = 0;                      // a bit for each entry whose line was not used yet
  std::array<std::uint8_t, capacity> next_{};    // the next entry in the same bucket
  std::array<std::uint8_t, num_buckets> first_;  // the first entry of each bucket
  std::uint8_t oldest_ = 0;
};

// The completion times of the accesses of one kind that can be in flight at a time (MSHRs). A further access waits for
// the first completion and reuses its slot.
class MissSlots {
 public:
  void resize(int slots) {
    done_.resize(static_cast<std::size_t>(slots));
    last_ = done_.size() - 1;
    first_ = 0;
  }
  // Returns when the next slot becomes free.
  const TimeVector& next_free_time() const { return done_[first_]; }
  // Returns the latest completion time.
  const TimeVector& last_completion_time() const { return done_[first_ == 0 ? last_ : first_ - 1]; }
  // Occupies the next slot for an access that completes after all others. Returns a reference to the slot's completion
  // time, which the caller must set.
  TimeVector& take_next_slot() {
    auto& slot = done_[first_];
    first_ = first_ == last_ ? 0 : first_ + 1;
    return slot;
  }
  // Occupies the next slot for an access that completes at `done`. Keeps the ring sorted by completion time, separately
  // for each memory speed.
  void insert(TimeVector done) {
    std::size_t at = first_;
    take_next_slot();
    for (std::size_t left = last_; left > 0; --left) {
      auto& before = done_[at == 0 ? last_ : at - 1];
      const TimeVector last = later(before, done);
      if (last == done) break;
      done_[at] = last;
      done = earlier(before, done);
      at = at == 0 ? last_ : at - 1;
    }
    done_[at] = done;
  }
  const std::vector<TimeVector>& completion_times() const { return done_; }

 private:
  std::vector<TimeVector> done_;  // ring buffer
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

class Timing {
 public:
  // The clock of one core and its accesses in flight.
  struct CoreClock {
    int core = 0;
    TimeVector now;
    Count issued = 0;  // instructions issued so far
    MissSlots miss_slots, nontemporal_slots;
    MissSlots prefetch_slots;  // if the prefetcher has slots of its own
    MissSlots walk_slots;      // if TLB misses overlap
    MissSlots transfer_slots;  // if lines from other caches have a limit of their own
    ReorderWindow window;
    TimeVector index;             // arrival of the data of the last index load that missed
    TimeVector nontemporal_done;  // completion of all non-temporal accesses
    std::array<TimeVector, max_cache_levels + 1> port_free;
    InFlightLines in_flight;
  };

  Timing(const Machine& machine, const std::array<double, num_memory_speeds>& slowdown);

  CoreClock& clock_of(int core) { return cores_[static_cast<std::size_t>(core)]; }
  // Advances the core's clock over the events, in order.
  void apply_events(CoreClock& clock, std::span<const TimingEvent> events) { kernel_(*this, clock, events); }
  // Returns the time of an L1 hit. Not for stores that L1 writes through.
  Ps hit_time(Access kind, Ps work) const {
    return (kind == Access::chase ? levels_.front().latency : per_access_) + work;
  }
  bool writes_through() const { return write_back_level_ > 0; }
  // Returns the extra time of a store that took its line from other caches, if it found the line at this level.
  Ps upgrade_time(int level) const { return level == 0 ? upgrade_ : upgrade_miss_; }
  // Returns whether the core continues while TLB misses are resolved.
  bool overlaps_walks() const { return overlaps_walks_; }
  // Returns whether a prefetch has a free slot now; a prefetch that would have to wait is dropped. The first memory
  // speed decides for all, since all speeds share the cache contents.
  bool has_prefetch_slot(CoreClock& clock) {
    return (has_own_prefetch_slots_ ? clock.prefetch_slots : clock.miss_slots).next_free_time()[0] <= clock.now[0];
  }
  void advance(int core, Ps duration) { clock_of(core).now += duration; }
  void wait_until(int core, const TimeVector& instant) { clock_of(core).now = later(clock_of(core).now, instant); }
  void drain(int core);
  const TimeVector& now(int core) const { return cores_[static_cast<std::size_t>(core)].now; }
  DramTiming& dram() { return dram_; }

 private:
  struct Level {
    Ps latency = 0;
    Ps per_line = 0;  // time that a line occupies the port
    Ps per_byte = 0;
  };

  friend struct plain::TimingKernel;
  friend struct wide::TimingKernel;
  TimeVector transfer_from_cache(CoreClock& clock, const LookupResult& found, Address address, const TimeVector& start);
  TimeVector arrival_from_memory(CoreClock& clock, Address address, std::uint64_t bytes, const TimeVector& start) {
    const TimeVector arrival = dram_.serve_core_access(clock.core, address, bytes, start);
    if (!has_limited_links_) [[likely]]
      return arrival;
    return cross_links(clock, dram_.local_core_of(address), bytes, arrival);
  }
  TimeVector cross_links(CoreClock& clock, int core_at_home, std::uint64_t bytes, TimeVector arrival);
  void post_writes(CoreClock& clock, Address address, unsigned writes, const LookupResult& found);

  void (*kernel_)(Timing&, CoreClock&, std::span<const TimingEvent>);  // the kernel for this host's instruction set
  std::vector<CoreClock> cores_;
  std::array<Level, max_cache_levels + 1> levels_;
  int num_caches_;
  int write_back_level_ = 0;  // the first level that writes back; 0 if L1 does
  bool has_prefetcher_ = false;
  bool has_own_prefetch_slots_ = false;
  DramTiming dram_;
  Sockets sockets_;
  HubLinks links_;
  bool has_limited_links_;  // sockets or links limit the bandwidth
  bool has_plain_memory_;   // links and sockets have no limit, and there is one memory without banks
  int cores_per_last_cache_;
  Ps per_access_;
  Count window_;
  Ps min_window_time_;  // lower bound of the time that a window of instructions takes
  Ps shared_transfer_, remote_transfer_, upgrade_, upgrade_miss_;
  bool overlaps_walks_, limits_transfers_;
  std::uint64_t granule_bytes_;
  double nontemporal_ps_per_byte_;
};

}  // namespace nearfield::sim

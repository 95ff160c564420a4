// The clocks of a node's cores: the time of an access, given where its line was found. A core issues one access per
// Core::cycles_per_access. Loads and stores that miss go on in the background, Core::outstanding_misses at a time, those
// past the caches Core::outstanding_bypass at a time. So do lines that are fetched ahead: they take slots of misses,
// unless the prefetcher has slots of its own, and an access to such a line takes no further one. No instruction is issued
// Core::window instructions after a load whose data is not there. A chase waits for its data, a gather for the data of
// the index load before it.
#pragma once

#include <algorithm>
#include <vector>

#include "sim/memory/dram.hpp"
#include "sim/memory/hierarchy.hpp"
#include "sim/memory/links.hpp"
#include "sim/memory/sockets.hpp"
#include "sim/memory/timing_events.hpp"

namespace nearfield::sim {

// The arrival times of one core's prefetched lines, by address: the last 64 lines that were not used yet.
class Arrivals {
 public:
  static constexpr int most = 64;
  static constexpr std::size_t hashes = 256;

  Arrivals() { first_.fill(none); }

  // Most cores of a machine never fetch ahead, so they have no room for arrivals before prepare().
  bool is_new() const { return arrivals_.empty(); }
  void prepare() { arrivals_.resize(most); }

  NEARFIELD_INNERMOST void add(Address line, const Times& there) {
    if (known_ >> oldest_ & 1) unchain(oldest_);
    known_ |= std::uint64_t{1} << oldest_;
    arrivals_[oldest_] = {there, line};
    auto& first = first_[hash(line)];
    next_[oldest_] = first;
    first = oldest_;
    oldest_ = (oldest_ + 1) % most;
  }
  static std::size_t hash(Address line) { return line * 0x9E3779B97F4A7C15ULL >> 56; }
  bool may_have(Address line) const { return first_[hash(line)] != none; }
  // Returns the later of `now` and the line's arrival, and forgets the line.
  NEARFIELD_INNERMOST Times take(Address line, Times now) {
    for (auto* link = &first_[hash(line)]; *link != none;) {
      const auto arrival = *link;
      if (arrivals_[arrival].line != line) {
        link = &next_[arrival];
        continue;
      }
      now = later(now, arrivals_[arrival].there);
      known_ &= ~(std::uint64_t{1} << arrival);
      *link = next_[arrival];
    }
    return now;
  }

 private:
  static constexpr std::uint8_t none = 0xFF;
  struct Arrival {
    Times there;
    Address line = 0;
  };

  NEARFIELD_INNERMOST void unchain(std::uint8_t arrival) {
    auto* link = &first_[hash(arrivals_[arrival].line)];
    while (*link != arrival) link = &next_[*link];
    *link = next_[arrival];
  }

  std::vector<Arrival> arrivals_;           // a ring
  std::uint64_t known_ = 0;                 // a bit for each arrival that was not used yet
  std::array<std::uint8_t, most> next_{};   // arrival with the same hash
  std::array<std::uint8_t, hashes> first_;  // arrival of each hash
  std::uint8_t oldest_ = 0;
};

// The times at which accesses of a kind are done, as many as can be under way at a time. A further access waits for the
// first of them that is done, and takes its slot.
class UnderWay {
 public:
  void resize(int most) {
    done_.resize(static_cast<std::size_t>(most));
    last_ = done_.size() - 1;
    first_ = 0;
  }
  // Returns when the next slot is free.
  const Times& free() const { return done_[first_]; }
  // Returns when the last one of them is done.
  const Times& last() const { return done_[first_ == 0 ? last_ : first_ - 1]; }
  // Takes the next slot, for an access that is done last of all; returns when it is done, which the caller sets.
  Times& next() {
    auto& slot = done_[first_];
    first_ = first_ == last_ ? 0 : first_ + 1;
    return slot;
  }
  // Takes the next slot, and sorts the time into the ring, at each memory speed for itself.
  void insert(Times done) {
    std::size_t at = first_;
    next();
    for (std::size_t left = last_; left > 0; --left) {
      auto& before = done_[at == 0 ? last_ : at - 1];
      const Times last = later(before, done);
      if (last == done) break;
      done_[at] = last;
      done = earlier(before, done);
      at = at == 0 ? last_ : at - 1;
    }
    done_[at] = done;
  }
  const std::vector<Times>& all() const { return done_; }

 private:
  std::vector<Times> done_;  // a ring
  std::size_t first_ = 0, last_ = 0;
};

// Which loads the instruction window is waiting for: those that missed, the oldest first, and the number of the first
// instruction that cannot be issued before each of them has its data.
class Window {
 public:
  static constexpr Count never = ~Count{0};

  // At most `most` loads are under way at a time.
  void resize(int most) {
    most_ = static_cast<std::size_t>(most);
    loads_.resize(1);
  }
  Count stalls() const { return stalls_; }
  bool full() const { return next_ - first_ == room_; }  // then it must make_room() for the next load
  // Makes room for a load. The ring is as long as was needed so far.
  void make_room() {
    if (room_ == most_) {
      pop();
      return;
    }
    std::vector<Load> longer(2 * loads_.size());
    for (auto load = first_; load < next_; ++load)
      longer[load & (longer.size() - 1)] = loads_[load & (loads_.size() - 1)];
    loads_.swap(longer);
    room_ = std::min(loads_.size(), most_);
  }
  // Returns when the load's data is there, which the caller sets.
  NEARFIELD_INNERMOST Times& add(Count stalls) {
    if (next_ == first_) stalls_ = stalls;
    auto& load = loads_[next_++ & (loads_.size() - 1)];
    load.stalls = stalls;
    return load.there;
  }
  // Returns when the oldest load's data is there, and forgets the load.
  const Times& pop() {
    const Times& there = loads_[first_ & (loads_.size() - 1)].there;
    ++first_;
    stalls_ = first_ < next_ ? loads_[first_ & (loads_.size() - 1)].stalls : never;
    return there;
  }

 private:
  struct Load {
    Count stalls = never;
    Times there;
  };

  std::vector<Load> loads_;  // a ring
  std::size_t most_ = 1, room_ = 1;
  std::size_t first_ = 0, next_ = 0;  // of all that there ever were
  Count stalls_ = never;              // the oldest's
};

class Timing {
 public:
  // The clock of one core and its accesses under way.
  struct CoreClock {
    int core = 0;
    Times now;
    Count issued = 0;  // instructions
    UnderWay misses, bypasses;
    UnderWay prefetches;  // of a prefetcher with slots of its own
    Window window;
    Times index;         // when the last index load that missed has its data
    Times all_bypassed;  // when all accesses past the caches are done
    std::array<Times, most_cache_levels + 1> port_free;
    Arrivals ahead;
  };

  Timing(const Machine& machine, const std::array<double, speeds>& slowdown);

  CoreClock& of(int core) { return cores_[static_cast<std::size_t>(core)]; }
  // The core does these steps, in order.
  void take(CoreClock& me, std::span<const TimedStep> steps) { take_(*this, me, steps); }
  // Returns what a hit of the nearest cache takes; not of stores that go through it.
  Ps per_hit(Access kind, Ps work) const {
    return (kind == Access::chase ? levels_.front().latency : per_access_) + work;
  }
  bool stores_go_through() const { return through_ > 0; }
  // Returns whether a line can be fetched ahead now: it is not if that had to wait for a slot. The first memory speed
  // decides for all, since all share the caches.
  bool has_slot_to_prefetch(CoreClock& me) {
    return (prefetches_apart_ ? me.prefetches : me.misses).free()[0] <= me.now[0];
  }
  void advance(int core, Ps duration) { of(core).now += duration; }
  void wait_until(int core, const Times& instant) { of(core).now = later(of(core).now, instant); }
  void drain(int core);
  const Times& now(int core) const { return cores_[static_cast<std::size_t>(core)].now; }
  DramTiming& dram() { return dram_; }

 private:
  struct Level {
    Ps latency = 0;
    Ps per_unit = 0;  // of the port, which a line occupies; at most that fast
    Ps per_byte = 0;
  };

  friend struct plain::TimingSteps;
  friend struct wide::TimingSteps;
  Times transferred(CoreClock& me, const Found& found, Address address, const Times& start);
  Times from_memory(CoreClock& me, Address address, std::uint64_t bytes, const Times& start) {
    const Times there = dram_.serve(me.core, address, bytes, start);
    if (!is_connected_) [[likely]]
      return there;
    return cross(me, dram_.core_at(address), bytes, there);
  }
  Times cross(CoreClock& me, int core_at_home, std::uint64_t bytes, Times there);
  void post(CoreClock& me, Address address, unsigned writes, const Found& found);

  void (*take_)(Timing&, CoreClock&, std::span<const TimedStep>);  // for this host's instructions
  std::vector<CoreClock> cores_;
  std::array<Level, most_cache_levels + 1> levels_;
  int caches_;
  int through_ = 0;  // caches that write through
  bool prefetches_ = false;
  bool prefetches_apart_ = false;
  DramTiming dram_;
  Sockets sockets_;
  HubLinks links_;
  bool is_connected_;  // by sockets or links that limit it
  bool is_plain_;      // not connected so, and there is one memory, which has no banks
  int cores_per_last_cache_;
  Ps per_access_;
  Count window_;
  Ps within_window_;  // how long the instructions of a window take at least
  Ps shared_transfer_, remote_transfer_;
  std::uint64_t unit_;
  double bypass_ps_per_byte_;
};

}  // namespace nearfield::sim

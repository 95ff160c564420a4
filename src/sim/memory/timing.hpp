// The clocks of a node's cores: the time of an access, given where its line was found. A core issues one access per
// Core::cycles_per_access; loads and stores that miss go on in the background, Core::outstanding_misses at a time,
// those past the caches Core::outstanding_bypass at a time; a chase waits for its data.
#pragma once

#include <vector>

#include "sim/memory/dram.hpp"
#include "sim/memory/hierarchy.hpp"

namespace nearfield::sim {

// The arrival times of one core's prefetched lines, by address: the last 64 lines that were not used yet.
class Arrivals {
 public:
  Arrivals() { first_.fill(none); }

  void add(Address line, const Times& there) {
    auto& replaced = arrivals_[oldest_];
    if (replaced.known) unchain(static_cast<std::uint8_t>(oldest_));
    auto& first = first_[hash(line)];
    replaced = {line, there, true, first};
    first = static_cast<std::uint8_t>(oldest_);
    oldest_ = (oldest_ + 1) % most;
  }
  bool may_have(Address line) const { return first_[hash(line)] != none; }
  // Returns the later of `now` and the line's arrival, and forgets the line.
  Times take(Address line, Times now);

 private:
  static constexpr std::size_t most = 64;
  static constexpr std::uint8_t none = 0xFF;
  struct Arrival {
    Address line = 0;
    Times there;
    bool known = false;
    std::uint8_t next = none;  // arrival with the same hash
  };

  static std::size_t hash(Address line) { return line * 0x9E3779B97F4A7C15ULL >> 56; }
  void unchain(std::uint8_t arrival);

  std::array<Arrival, most> arrivals_;
  std::array<std::uint8_t, 256> first_;  // arrival of each hash
  std::size_t oldest_ = 0;
};

// The times at which the last accesses of a kind are done, as many as can be under way. A further access waits for the
// oldest of them and takes its slot.
class UnderWay {
 public:
  void resize(int most) {
    done_.resize(static_cast<std::size_t>(most));
    oldest_ = done_.data();
  }
  Times& oldest() { return *oldest_; }
  const std::vector<Times>& all() const { return done_; }
  void next() { oldest_ = oldest_ == &done_.back() ? done_.data() : oldest_ + 1; }

 private:
  std::vector<Times> done_;
  Times* oldest_ = nullptr;
};

class Timing {
 public:
  // The clock of one core and its accesses under way.
  struct CoreClock {
    int core = 0;
    Times now;
    UnderWay misses, bypasses;
    Times all_bypassed;  // when all accesses past the caches are done
    std::array<Times, most_cache_levels> port_free;
    Arrivals ahead;
  };

  Timing(const Machine& machine, const std::array<double, speeds>& slowdown);

  CoreClock& of(int core) { return cores_[static_cast<std::size_t>(core)]; }
  // One access, or `count` accesses, that hit the nearest cache.
  void hit(CoreClock& me) { me.now += per_access_; }
  void hits(CoreClock& me, Count count) { me.now += static_cast<Ps>(count) * per_access_; }
  void chase_hit(CoreClock& me) { me.now += levels_.front().latency; }
  // One access that missed it; `writes` units were written to memory to make room for the line.
  void missed(CoreClock& me, Access kind, const Found& found, Address address, unsigned writes);
  // One access past the caches.
  void bypassed(int core, Address address, unsigned bytes, unsigned writes);
  // A line is fetched ahead; an access waits for such a line if it is still on its way.
  void prefetched(CoreClock& me, Address line, const Found& from, unsigned writes);
  void wait_for_prefetched(CoreClock& me, Address line) {
    if (me.ahead.may_have(line)) me.now = me.ahead.take(line, me.now);
  }

  void advance(int core, Ps duration) { of(core).now += duration; }
  void wait_until(int core, const Times& instant) { of(core).now = later(of(core).now, instant); }
  void drain(int core);
  const Times& now(int core) const { return cores_[static_cast<std::size_t>(core)].now; }
  DramTiming& dram() { return dram_; }

 private:
  struct Level {
    Ps latency = 0;
    Ps per_unit = 0;  // of the port, which a line occupies
  };

  Times ready(CoreClock& me, const Found& found, Address address, const Times& start);
  Times transferred(const Found& found, const Times& start) const;

  std::vector<CoreClock> cores_;
  std::array<Level, most_cache_levels> levels_;
  int caches_;
  DramTiming dram_;
  Ps per_access_;
  Ps shared_transfer_, remote_transfer_;
  std::uint64_t unit_;
  double bypass_ps_per_byte_;
};

NEARFIELD_INNERMOST Times Timing::ready(CoreClock& me, const Found& found, Address address, const Times& start) {
  if (found.transferred) [[unlikely]]
    return transferred(found, start);
  if (found.level == caches_) return dram_.serve(me.core, address, unit_, start);
  const auto level = static_cast<std::size_t>(found.level);
  const auto& its = levels_[level];
  if (its.per_unit == 0) return start + its.latency;
  auto& free = me.port_free[level];
  const Times begun = later(start, free);
  free = begun + its.per_unit;
  return begun + its.latency;
}

NEARFIELD_INNERMOST void Timing::missed(CoreClock& me, Access kind, const Found& found, Address address,
                                        unsigned writes) {
  if (writes > 0) dram_.post(address, writes * unit_);
  if (kind == Access::chase) {
    me.now = ready(me, found, address, me.now);
    return;
  }
  auto& slot = me.misses.oldest();
  const Times start = later(me.now, slot);
  slot = ready(me, found, address, start);
  me.misses.next();
  me.now = start + per_access_;
}

}  // namespace nearfield::sim

// The clocks of a node's cores: what an access costs, given where it found its line. A core issues one access per
// Core::cycles_per_access; loads and stores that miss go on in the background, Core::outstanding_misses at a time,
// those past the caches Core::outstanding_bypass at a time; a chase waits for its data.
#pragma once

#include <vector>

#include "sim/memory/dram.hpp"
#include "sim/memory/hierarchy.hpp"

namespace nearfield::sim {

class Timing {
 public:
  Timing(const Machine& machine, const std::array<double, lanes>& slowdown);

  // That many accesses that hit the nearest cache.
  void hits(int core, Count count) { of(core).now += static_cast<Ps>(count) * per_access_; }
  void chase_hit(int core) { of(core).now += levels_.front().latency; }
  // One access that did not.
  void missed(int core, Access kind, const Found& found, Address address, const Traffic& traffic);
  // One access past the caches.
  void bypassed(int core, Address address, unsigned bytes, const Traffic& traffic);
  // A line that is fetched ahead, and an access that found it on its way.
  void prefetched(int core, Address line, const Found& from, const Traffic& traffic);
  void wait_for_prefetched(int core, Address line);

  void advance(int core, Ps duration) { of(core).now += duration; }
  void wait_until(int core, const Times& instant) { of(core).now = later(of(core).now, instant); }
  void drain(int core);
  const Times& now(int core) const { return cores_[static_cast<std::size_t>(core)].now; }
  DramTiming& dram() { return dram_; }

 private:
  struct Level {
    Ps latency = 0;
    Ps per_unit = 0;  // of a line, at most that fast
  };
  struct Core_ {
    Times now;
    std::vector<Times> under_way;  // when the last misses are done; a ring
    std::size_t oldest = 0;
    std::vector<Times> bypassing;  // the same of accesses past the caches
    std::size_t oldest_bypass = 0;
    Times all_bypassed;                            // when all of them are done
    std::vector<std::pair<Address, Times>> ahead;  // lines fetched ahead, and when they are there; a ring
    std::size_t oldest_ahead = 0;
    std::vector<Times> port_free;  // per level
  };

  Core_& of(int core) { return cores_[static_cast<std::size_t>(core)]; }
  Times ready(int core, const Found& found, Address address, const Times& start);

  std::vector<Core_> cores_;
  std::vector<Level> levels_;
  DramTiming dram_;
  Ps per_access_;
  Ps shared_transfer_, remote_transfer_;
  std::uint64_t unit_;
  double bypass_ps_per_byte_;
};

NEARFIELD_INNERMOST Times Timing::ready(int core, const Found& found, Address address, const Times& start) {
  const auto level = static_cast<std::size_t>(found.level);
  if (found.transferred) {
    const bool below_last = level < levels_.size();
    const Ps transfer = below_last ? shared_transfer_ : remote_transfer_;
    return start + std::max(transfer, below_last ? levels_[level].latency : 0);
  }
  if (level == levels_.size()) return dram_.serve(core, address, unit_, start);
  const auto& its = levels_[level];
  if (its.per_unit == 0) return start + its.latency;
  auto& free = of(core).port_free[level];
  const Times begun = later(start, free);
  free = begun + its.per_unit;
  return begun + its.latency;
}

NEARFIELD_INNERMOST void Timing::missed(int core, Access kind, const Found& found, Address address,
                                        const Traffic& traffic) {
  auto& me = of(core);
  if (traffic.writes > 0) dram_.post(address, static_cast<std::uint64_t>(traffic.writes) * unit_);
  if (kind == Access::chase) {
    me.now = ready(core, found, address, me.now);
    return;
  }
  auto& slot = me.under_way[me.oldest];
  const Times start = later(me.now, slot);
  slot = ready(core, found, address, start);
  me.oldest = me.oldest + 1 == me.under_way.size() ? 0 : me.oldest + 1;
  me.now = start + per_access_;
}

}  // namespace nearfield::sim

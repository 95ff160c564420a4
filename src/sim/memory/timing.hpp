// The clocks of a node's cores: the time of an access, given which level supplied its line. A core issues one access
// per Core::cycles_per_access. Loads and stores that miss proceed in the background, at most Core::outstanding_misses
// at a time; non-temporal accesses likewise, at most Core::outstanding_bypass at a time. Prefetches also proceed in the
// background: they occupy miss slots, unless the prefetcher has slots of its own, and an access to a line that is being
// prefetched occupies no further slot. No instruction is issued Core::window instructions after a load whose data has
// not arrived. A chase waits for its data, a gather for the data of the index load before it. A TLB miss stops the
// core. With Pages::walkers, up to that number of TLB misses are in flight together with the accesses that need them,
// and only a chase waits.
#pragma once

#include <vector>

#include "sim/memory/core_clock.hpp"
#include "sim/memory/dram.hpp"
#include "sim/memory/hierarchy.hpp"
#include "sim/memory/links.hpp"
#include "sim/memory/sockets.hpp"
#include "sim/memory/timing_constants.hpp"
#include "sim/memory/timing_events.hpp"

namespace nearfield::sim {

class Timing {
 public:
  Timing(const Machine& machine, const std::array<double, num_memory_speeds>& slowdown);

  CoreClock& clock_of(int core) { return cores_[static_cast<std::size_t>(core)]; }
  // Advances the core's clock over the events, in order.
  void apply_events(CoreClock& clock, std::span<const TimingEvent> events) { kernel_(*this, clock, events); }
  // Returns the time of an L1 hit. Not for stores that L1 writes through.
  Ps hit_time(Access kind, Ps work) const {
    return (kind == Access::chase ? constants_.levels.front().latency : constants_.per_access) + work;
  }
  bool writes_through() const { return constants_.first_write_back_level > 0; }
  // Returns the extra time of a store that took its line from other caches, if it found the line at this level.
  Ps upgrade_time(int level) const { return level == 0 ? constants_.upgrade : constants_.upgrade_miss; }
  // Returns whether the core continues while TLB misses are resolved.
  bool overlaps_walks() const { return constants_.overlaps_walks; }
  // Returns whether a prefetch has a free slot now; a prefetch that would have to wait is dropped. The first memory
  // speed decides for all, since all speeds share the cache contents.
  bool has_prefetch_slot(CoreClock& clock) {
    return (constants_.has_own_prefetch_slots ? clock.prefetch_slots : clock.miss_slots).next_free_time()[0] <=
           clock.now[0];
  }
  void advance(int core, Ps duration) { clock_of(core).now += duration; }
  void wait_until(int core, const TimeVector& instant) { clock_of(core).now = later(clock_of(core).now, instant); }
  void drain(int core);
  const TimeVector& now(int core) const { return cores_[static_cast<std::size_t>(core)].now; }
  DramTiming& dram() { return dram_; }

 private:
  friend struct plain::TimingKernel;
  friend struct wide::TimingKernel;
  TimeVector transfer_from_cache(CoreClock& clock, const LookupResult& lookup, Address address,
                                 const TimeVector& start);
  TimeVector arrival_from_memory(CoreClock& clock, Address address, std::uint64_t bytes, const TimeVector& start) {
    const TimeVector arrival = dram_.serve_core_access(clock.core, address, bytes, start);
    if (!has_limited_links_) [[likely]]
      return arrival;
    return cross_links(clock, dram_.local_core_of(address), bytes, arrival);
  }
  TimeVector cross_links(CoreClock& clock, int home_core, std::uint64_t bytes, TimeVector arrival);
  void post_writes(CoreClock& clock, Address address, unsigned writes, const LookupResult& lookup);

  void (*kernel_)(Timing&, CoreClock&, std::span<const TimingEvent>);  // the kernel for this host's instruction set
  std::vector<CoreClock> cores_;
  const TimingConstants constants_;
  DramTiming dram_;
  Sockets sockets_;
  HubLinks links_;
  bool has_limited_links_;  // sockets or links limit the bandwidth
  bool has_plain_memory_;   // links and sockets have no limit, and there is one memory without banks
};

}  // namespace nearfield::sim

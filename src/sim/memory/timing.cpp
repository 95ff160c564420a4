#include "sim/memory/timing.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace nearfield::sim {

namespace plain {
using SimdTimes = TimeVector;
NEARFIELD_ALWAYS_INLINE const TimeVector& load_halves(const TimeVector& times) { return times; }
NEARFIELD_ALWAYS_INLINE const TimeVector& load_whole(const TimeVector& times) { return times; }
NEARFIELD_ALWAYS_INLINE const TimeVector& to_times(const TimeVector& times) { return times; }
NEARFIELD_ALWAYS_INLINE void store(const TimeVector& from, TimeVector& to) { to = from; }
#include "sim/memory/timing_kernel.hpp"
}  // namespace plain

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2")
namespace wide {
#include "sim/memory/wide_times.hpp"
// Included after wide_times.hpp, which defines SimdTimes.
#include "sim/memory/timing_kernel.hpp"
}  // namespace wide
#pragma GCC pop_options
#endif

namespace {

// Returns the fastest kernel for this host. NEARFIELD_INSTRUCTIONS=plain excludes instructions that not every host
// has.
auto select_kernel() {
#if defined(__x86_64__)
  const char* const requested = std::getenv("NEARFIELD_INSTRUCTIONS");
  if (__builtin_cpu_supports("avx2") && !(requested && std::strcmp(requested, "plain") == 0))
    return wide::TimingKernel::apply_events;
#endif
  return plain::TimingKernel::apply_events;
}

}  // namespace

CoreClock::CoreClock(const Machine& machine, const TimingConstants& constants, int number) : core(number) {
  const int misses = std::max(1, machine.core.outstanding_misses), nontemporal = machine.core.outstanding_bypass;
  miss_slots.resize(misses);
  nontemporal_slots.resize(nontemporal > 0 ? nontemporal : misses);
  window.resize(misses + InFlightLines::capacity + std::max(0, machine.pages.walkers));
  if (constants.limits_transfers) transfer_slots.resize(machine.transfers.outstanding);
  if (constants.overlaps_walks) walk_slots.resize(machine.pages.walkers);
  if (constants.has_own_prefetch_slots) prefetch_slots.resize(machine.prefetcher->outstanding);
}

Timing::Timing(const Machine& machine, const std::array<double, num_memory_speeds>& slowdown)
    : kernel_(select_kernel()),
      constants_(machine),
      dram_(machine, slowdown),
      sockets_(machine),
      links_(machine),
      has_limited_links_(sockets_.have_limited_bandwidth() || links_.has_links()),
      has_plain_memory_(!has_limited_links_ && dram_.has_one_memory_without_banks()) {
  cores_.reserve(static_cast<std::size_t>(machine.cores));
  for (int core = 0; core < machine.cores; ++core) cores_.emplace_back(machine, constants_, core);
}

// Returns the time at which a line from another core's cache arrives, if the request starts at `start`.
TimeVector Timing::transfer_from_cache(CoreClock& clock, const LookupResult& lookup, Address address,
                                       const TimeVector& start) {
  const bool below_last = lookup.level < constants_.num_caches;
  const Ps transfer = below_last ? constants_.shared_transfer : constants_.remote_transfer;
  TimeVector arrival =
      start + std::max(transfer, below_last ? constants_.levels[static_cast<std::size_t>(lookup.level)].latency : 0);
  if (below_last || !has_limited_links_) return arrival;
  if (links_.has_links()) {
    const int holder = lookup.holder * constants_.cores_per_last_cache;
    arrival =
        links_.cross_route(holder, clock.core, constants_.granule_bytes,
                           arrival + links_.extra_latency_via_home(clock.core, dram_.local_core_of(address), holder));
  }
  return sockets_.have_limited_bandwidth()
             ? sockets_.arrival_from_cache(clock.core, lookup.holder, constants_.granule_bytes, arrival)
             : arrival;
}

// Returns the time at which data from the memory next to `home_core` arrives over links and sockets of limited
// bandwidth. `arrival` is the time at which it would arrive if they were idle and every remote memory were as near as
// the closest one.
TimeVector Timing::cross_links(CoreClock& clock, int home_core, std::uint64_t bytes, TimeVector arrival) {
  if (links_.has_links())
    arrival = links_.cross_route(home_core, clock.core, bytes,
                                 arrival + links_.latency_beyond_first_router(clock.core, home_core));
  return sockets_.have_limited_bandwidth() ? sockets_.arrival_from_memory(clock.core, home_core, bytes, arrival)
                                           : arrival;
}

// Appends write-backs to the traffic of links and sockets. If the holder of a line wrote the line back so that others
// can share it, that granule travels from the holder's hub to the line's home.
void Timing::post_writes(CoreClock& clock, Address address, unsigned writes, const LookupResult& lookup) {
  const int home_core = dram_.local_core_of(address);
  if (links_.has_links()) {
    if (lookup.was_written_back) {
      links_.post_write_back(lookup.holder * constants_.cores_per_last_cache, home_core, constants_.granule_bytes);
      --writes;
    }
    links_.post_write_back(clock.core, home_core, writes * constants_.granule_bytes);
  }
  if (sockets_.have_limited_bandwidth())
    sockets_.post_write_back(clock.core, home_core, writes * constants_.granule_bytes);
}

void Timing::drain(int core) {
  auto& clock = clock_of(core);
  for (const auto& done : clock.miss_slots.completion_times()) clock.now = later(clock.now, done);
  for (const auto& done : clock.walk_slots.completion_times()) clock.now = later(clock.now, done);
  clock.now = later(clock.now, clock.nontemporal_completion);
}

}  // namespace nearfield::sim

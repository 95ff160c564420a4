#include "sim/memory/timing.hpp"

#include <cstdlib>
#include <cstring>
#include <limits>

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

Timing::Timing(const Machine& machine, const std::array<double, num_memory_speeds>& slowdown)
    : kernel_(select_kernel()),
      cores_(static_cast<std::size_t>(machine.cores)),
      num_caches_(static_cast<int>(machine.caches.size())),
      dram_(machine, slowdown),
      sockets_(machine),
      links_(machine),
      has_limited_links_(sockets_.have_limited_bandwidth() || links_.has_links()),
      has_plain_memory_(!has_limited_links_ && dram_.has_one_memory_without_banks()),
      cores_per_last_cache_(machine.caches.back().shared_by),
      granule_bytes_(static_cast<std::uint64_t>(machine.caches.back().line_bytes / machine.caches.back().sub_blocks)) {
  const auto ps = [&](double cycles) { return ps_from_ns(cycles / machine.core.clock_ghz); };
  per_access_ = ps(machine.core.cycles_per_access);
  window_ = static_cast<Count>(std::max(0, machine.core.window));
  upgrade_ = ps(machine.transfers.upgrade_cycles);
  upgrade_miss_ = machine.transfers.upgrade_miss_cycles > 0 ? ps(machine.transfers.upgrade_miss_cycles) : upgrade_;
  overlaps_walks_ = machine.pages.walkers > 0;
  limits_transfers_ = machine.transfers.outstanding > 0;
  // Lower bound of the time from one instruction to the next; a chase takes at least the latency of its level.
  Ps min_latency = per_access_;
  for (const auto& cache : machine.caches) min_latency = std::min(min_latency, ps(cache.latency_cycles));
  if (const double rate = machine.core.copy_bytes_per_cycle; rate > 0)
    min_latency = std::min(min_latency, ps(machine.caches.front().line_bytes / 2.0 / rate));
  shared_transfer_ = ps(machine.transfers.shared_cycles);
  remote_transfer_ = ps(machine.transfers.remote_cycles);
  if (machine.cores > machine.caches.back().shared_by) min_latency = std::min(min_latency, remote_transfer_);
  min_latency = std::min(min_latency, ps_from_ns(machine.dram.latency_ns));
  for (const MemoryTier& tier : machine.dram.tiers) min_latency = std::min(min_latency, ps_from_ns(tier.latency_ns));
  min_window_time_ = window_ > 0 ? static_cast<Ps>(window_) * min_latency : std::numeric_limits<Ps>::infinity();
  nontemporal_ps_per_byte_ = machine.dram.gb_per_s_bypass > 0 ? 1e3 / machine.dram.gb_per_s_bypass : 0;
  const auto* inner = &machine.caches.front();
  for (std::size_t k = 0; k < machine.caches.size(); ++k) {
    const auto& cache = machine.caches[k];
    levels_[k].latency = ps(cache.latency_cycles);
    if (cache.bytes_per_cycle > 0) {
      levels_[k].per_line = ps(inner->line_bytes / cache.bytes_per_cycle);
      levels_[k].per_byte = 1e3 / machine.core.clock_ghz / cache.bytes_per_cycle;
    }
    if (cache.write == WritePolicy::through) write_back_level_ = static_cast<int>(k) + 1;
    inner = &cache;
  }
  has_prefetcher_ = machine.prefetcher.has_value();
  has_own_prefetch_slots_ = machine.prefetcher && machine.prefetcher->outstanding > 0;
  const int misses = std::max(1, machine.core.outstanding_misses), nontemporal = machine.core.outstanding_bypass;
  for (int core = 0; core < machine.cores; ++core) {
    auto& clock = clock_of(core);
    clock.core = core;
    clock.miss_slots.resize(misses);
    clock.nontemporal_slots.resize(nontemporal > 0 ? nontemporal : misses);
    clock.window.resize(misses + InFlightLines::capacity + std::max(0, machine.pages.walkers));
    if (limits_transfers_) clock.transfer_slots.resize(machine.transfers.outstanding);
    if (overlaps_walks_) clock.walk_slots.resize(machine.pages.walkers);
    if (has_own_prefetch_slots_) clock.prefetch_slots.resize(machine.prefetcher->outstanding);
  }
}

// Returns the time at which a line from another core's cache arrives, if the request starts at `start`.
TimeVector Timing::transfer_from_cache(CoreClock& clock, const LookupResult& found, Address address,
                                       const TimeVector& start) {
  const bool below_last = found.level < num_caches_;
  const Ps transfer = below_last ? shared_transfer_ : remote_transfer_;
  TimeVector arrival =
      start + std::max(transfer, below_last ? levels_[static_cast<std::size_t>(found.level)].latency : 0);
  if (below_last || !has_limited_links_) return arrival;
  if (links_.has_links()) {
    const int holder = found.holder * cores_per_last_cache_;
    arrival =
        links_.cross_route(holder, clock.core, granule_bytes_,
                           arrival + links_.extra_latency_via_home(clock.core, dram_.local_core_of(address), holder));
  }
  return sockets_.have_limited_bandwidth()
             ? sockets_.arrival_from_cache(clock.core, found.holder, granule_bytes_, arrival)
             : arrival;
}

// Returns the time at which data from a memory arrives. `arrival` is the time on idle links, without routers beyond the
// first.
TimeVector Timing::cross_links(CoreClock& clock, int core_at_home, std::uint64_t bytes, TimeVector arrival) {
  if (links_.has_links())
    arrival = links_.cross_route(core_at_home, clock.core, bytes,
                                 arrival + links_.latency_beyond_first_router(clock.core, core_at_home));
  return sockets_.have_limited_bandwidth() ? sockets_.arrival_from_memory(clock.core, core_at_home, bytes, arrival)
                                           : arrival;
}

// Appends write-backs to the traffic of links and sockets. If the holder of a line wrote the line back so that others
// can share it, that granule travels from the holder's hub to the line's home.
void Timing::post_writes(CoreClock& clock, Address address, unsigned writes, const LookupResult& found) {
  const int core_at_home = dram_.local_core_of(address);
  if (links_.has_links()) {
    if (found.written) {
      links_.post_write_back(found.holder * cores_per_last_cache_, core_at_home, granule_bytes_);
      --writes;
    }
    links_.post_write_back(clock.core, core_at_home, writes * granule_bytes_);
  }
  if (sockets_.have_limited_bandwidth()) sockets_.post_write_back(clock.core, core_at_home, writes * granule_bytes_);
}

void Timing::drain(int core) {
  auto& clock = clock_of(core);
  for (const auto& done : clock.miss_slots.completion_times()) clock.now = later(clock.now, done);
  for (const auto& done : clock.walk_slots.completion_times()) clock.now = later(clock.now, done);
  clock.now = later(clock.now, clock.nontemporal_done);
}

}  // namespace nearfield::sim

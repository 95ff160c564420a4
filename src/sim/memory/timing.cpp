#include "sim/memory/timing.hpp"

#include <cstdlib>
#include <cstring>
#include <limits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace nearfield::sim {

namespace plain {
using V = Times;
NEARFIELD_INNERMOST const Times& of(const Times& times) { return times; }
NEARFIELD_INNERMOST const Times& whole(const Times& times) { return times; }
NEARFIELD_INNERMOST const Times& times(const Times& times) { return times; }
NEARFIELD_INNERMOST void put(const Times& from, Times& to) { to = from; }
#include "sim/memory/timing_kernel.hpp"
}  // namespace plain

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2")
namespace wide {
#include "sim/memory/wide_times.hpp"
// after what it needs
#include "sim/memory/timing_kernel.hpp"
}  // namespace wide
#pragma GCC pop_options
#endif

namespace {

// Returns how clocks go on fastest on this host. NEARFIELD_INSTRUCTIONS=plain leaves out what not every one has.
auto fastest_steps() {
#if defined(__x86_64__)
  const char* const asked = std::getenv("NEARFIELD_INSTRUCTIONS");
  if (__builtin_cpu_supports("avx2") && !(asked && std::strcmp(asked, "plain") == 0)) return wide::TimingSteps::run;
#endif
  return plain::TimingSteps::run;
}

}  // namespace

Timing::Timing(const Machine& machine, const std::array<double, speeds>& slowdown)
    : take_(fastest_steps()),
      cores_(static_cast<std::size_t>(machine.cores)),
      caches_(static_cast<int>(machine.caches.size())),
      dram_(machine, slowdown),
      sockets_(machine),
      links_(machine),
      is_connected_(sockets_.limit() || links_.any()),
      is_plain_(!is_connected_ && dram_.is_plain()),
      cores_per_last_cache_(machine.caches.back().shared_by),
      unit_(static_cast<std::uint64_t>(machine.caches.back().line_bytes / machine.caches.back().sub_blocks)) {
  const auto ps = [&](double cycles) { return ps_from_ns(cycles / machine.core.clock_ghz); };
  per_access_ = ps(machine.core.cycles_per_access);
  window_ = static_cast<Count>(std::max(0, machine.core.window));
  Ps least = per_access_;  // between two instructions, since a chase takes at least what its level takes
  for (const auto& cache : machine.caches) least = std::min(least, ps(cache.latency_cycles));
  shared_transfer_ = ps(machine.transfers.shared_cycles);
  remote_transfer_ = ps(machine.transfers.remote_cycles);
  if (machine.cores > machine.caches.back().shared_by) least = std::min(least, remote_transfer_);
  within_window_ = window_ > 0 ? static_cast<Ps>(window_) * std::min(least, ps_from_ns(machine.dram.latency_ns))
                               : std::numeric_limits<Ps>::infinity();
  bypass_ps_per_byte_ = machine.dram.gb_per_s_bypass > 0 ? 1e3 / machine.dram.gb_per_s_bypass : 0;
  const auto* before = &machine.caches.front();
  for (std::size_t k = 0; k < machine.caches.size(); ++k) {
    const auto& cache = machine.caches[k];
    levels_[k].latency = ps(cache.latency_cycles);
    if (cache.bytes_per_cycle > 0) {
      levels_[k].per_unit = ps(before->line_bytes / cache.bytes_per_cycle);
      levels_[k].per_byte = 1e3 / machine.core.clock_ghz / cache.bytes_per_cycle;
    }
    if (cache.write == WritePolicy::through) through_ = static_cast<int>(k) + 1;
    before = &cache;
  }
  prefetches_ = machine.prefetcher.has_value();
  prefetches_apart_ = machine.prefetcher && machine.prefetcher->outstanding > 0;
  const int misses = std::max(1, machine.core.outstanding_misses), bypasses = machine.core.outstanding_bypass;
  for (int core = 0; core < machine.cores; ++core) {
    auto& me = of(core);
    me.core = core;
    me.misses.resize(misses);
    me.bypasses.resize(bypasses > 0 ? bypasses : misses);
    me.window.resize(misses + Arrivals::most);
    if (prefetches_apart_) me.prefetches.resize(machine.prefetcher->outstanding);
  }
}

// Returns when a line from a cache of another core is there.
Times Timing::transferred(CoreClock& me, const Found& found, Address address, const Times& start) {
  const bool below_last = found.level < caches_;
  const Ps transfer = below_last ? shared_transfer_ : remote_transfer_;
  Times there = start + std::max(transfer, below_last ? levels_[static_cast<std::size_t>(found.level)].latency : 0);
  if (below_last || !is_connected_) return there;
  if (links_.any()) {
    const int holder = found.holder * cores_per_last_cache_;
    there =
        links_.cross(holder, me.core, unit_, there + links_.by_way_of_home(me.core, dram_.core_at(address), holder));
  }
  return sockets_.limit() ? sockets_.from_cache(me.core, found.holder, unit_, there) : there;
}

// Returns when data from a memory is there that would be there at `there` if nothing else were on its way.
Times Timing::cross(CoreClock& me, int core_at_home, std::uint64_t bytes, Times there) {
  if (links_.any())
    there = links_.cross(core_at_home, me.core, bytes, there + links_.beyond_first_router(me.core, core_at_home));
  return sockets_.limit() ? sockets_.from_memory(me.core, core_at_home, bytes, there) : there;
}

// Between hubs, a unit that its holder wrote for others to share goes from there to its home.
void Timing::post(CoreClock& me, Address address, unsigned writes, const Found& found) {
  const int core_at_home = dram_.core_at(address);
  if (links_.any()) {
    if (found.written) {
      links_.post(found.holder * cores_per_last_cache_, core_at_home, unit_);
      --writes;
    }
    links_.post(me.core, core_at_home, writes * unit_);
  }
  if (sockets_.limit()) sockets_.post(me.core, core_at_home, writes * unit_);
}

void Timing::drain(int core) {
  auto& me = of(core);
  for (const auto& done : me.misses.all()) me.now = later(me.now, done);
  me.now = later(me.now, me.all_bypassed);
}

}  // namespace nearfield::sim

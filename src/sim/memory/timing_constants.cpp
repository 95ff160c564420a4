#include "sim/memory/timing_constants.hpp"

#include <algorithm>
#include <limits>

namespace nearfield::sim {
namespace {

Ps ps_from_cycles(const Machine& machine, double cycles) { return ps_from_ns(cycles / machine.core.clock_ghz); }

// Returns a lower bound of the time from one instruction to the next. A chase takes at least the latency of its level.
Ps min_instruction_time(const Machine& machine) {
  Ps least = ps_from_cycles(machine, machine.core.cycles_per_access);
  for (const auto& cache : machine.caches) least = std::min(least, ps_from_cycles(machine, cache.latency_cycles));
  if (const double rate = machine.core.copy_bytes_per_cycle; rate > 0)
    least = std::min(least, ps_from_cycles(machine, machine.caches.front().line_bytes / 2.0 / rate));
  if (machine.cores > machine.caches.back().shared_by)
    least = std::min(least, ps_from_cycles(machine, machine.transfers.remote_cycles));
  least = std::min(least, ps_from_ns(machine.dram.latency_ns));
  for (const MemoryTier& tier : machine.dram.tiers) least = std::min(least, ps_from_ns(tier.latency_ns));
  return least;
}

// Returns the times of a cache level, whose port moves lines of `inner_line_bytes`.
TimingConstants::Level make_level(const Machine& machine, const Cache& cache, int inner_line_bytes) {
  TimingConstants::Level level;
  level.latency = ps_from_cycles(machine, cache.latency_cycles);
  if (cache.bytes_per_cycle > 0) {
    level.per_line = ps_from_cycles(machine, inner_line_bytes / cache.bytes_per_cycle);
    level.per_byte = 1e3 / machine.core.clock_ghz / cache.bytes_per_cycle;
  }
  return level;
}

}  // namespace

TimingConstants::TimingConstants(const Machine& machine)
    : num_caches(static_cast<int>(machine.caches.size())),
      cores_per_last_cache(machine.caches.back().shared_by),
      granule_bytes(static_cast<std::uint64_t>(machine.caches.back().line_bytes / machine.caches.back().sub_blocks)),
      per_access(ps_from_cycles(machine, machine.core.cycles_per_access)),
      window(static_cast<Count>(std::max(0, machine.core.window))),
      min_window_time(window > 0 ? static_cast<Ps>(window) * min_instruction_time(machine)
                                 : std::numeric_limits<Ps>::infinity()),
      shared_transfer(ps_from_cycles(machine, machine.transfers.shared_cycles)),
      remote_transfer(ps_from_cycles(machine, machine.transfers.remote_cycles)),
      upgrade(ps_from_cycles(machine, machine.transfers.upgrade_cycles)),
      upgrade_miss(machine.transfers.upgrade_miss_cycles > 0
                       ? ps_from_cycles(machine, machine.transfers.upgrade_miss_cycles)
                       : upgrade),
      nontemporal_ps_per_byte(machine.dram.gb_per_s_bypass > 0 ? 1e3 / machine.dram.gb_per_s_bypass : 0),
      has_prefetcher(machine.prefetcher.has_value()),
      has_own_prefetch_slots(machine.prefetcher && machine.prefetcher->outstanding > 0),
      overlaps_walks(machine.pages.walkers > 0),
      limits_transfers(machine.transfers.outstanding > 0) {
  const Cache* inner = &machine.caches.front();
  for (std::size_t k = 0; k < machine.caches.size(); ++k) {
    const Cache& cache = machine.caches[k];
    levels[k] = make_level(machine, cache, inner->line_bytes);
    if (cache.write == WritePolicy::through) first_write_back_level = static_cast<int>(k) + 1;
    inner = &cache;
  }
}

}  // namespace nearfield::sim

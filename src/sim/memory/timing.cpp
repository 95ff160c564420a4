#include "sim/memory/timing.hpp"

namespace nearfield::sim {

void Arrivals::unchain(std::uint8_t arrival) {
  auto* link = &first_[hash(arrivals_[arrival].line)];
  while (*link != arrival) link = &arrivals_[*link].next;
  *link = arrivals_[arrival].next;
}

Times Arrivals::take(Address line, Times now) {
  for (auto* link = &first_[hash(line)]; *link != none;) {
    auto& arrival = arrivals_[*link];
    if (arrival.line != line) {
      link = &arrival.next;
      continue;
    }
    now = later(now, arrival.there);
    arrival.known = false;
    *link = arrival.next;
  }
  return now;
}

Timing::Timing(const Machine& machine, const std::array<double, speeds>& slowdown)
    : cores_(static_cast<std::size_t>(machine.cores)),
      caches_(static_cast<int>(machine.caches.size())),
      dram_(machine, slowdown),
      unit_(static_cast<std::uint64_t>(machine.caches.back().line_bytes / machine.caches.back().sub_blocks)) {
  const auto ps = [&](double cycles) { return ps_from_ns(cycles / machine.core.clock_ghz); };
  per_access_ = ps(machine.core.cycles_per_access);
  shared_transfer_ = ps(machine.transfers.shared_cycles);
  remote_transfer_ = ps(machine.transfers.remote_cycles);
  bypass_ps_per_byte_ = machine.dram.gb_per_s_bypass > 0 ? 1e3 / machine.dram.gb_per_s_bypass : 0;
  const auto* before = &machine.caches.front();
  for (std::size_t k = 0; k < machine.caches.size(); ++k) {
    const auto& cache = machine.caches[k];
    levels_[k].latency = ps(cache.latency_cycles);
    if (cache.bytes_per_cycle > 0) levels_[k].per_unit = ps(before->line_bytes / cache.bytes_per_cycle);
    before = &cache;
  }
  const int misses = std::max(1, machine.core.outstanding_misses), bypasses = machine.core.outstanding_bypass;
  for (int core = 0; core < machine.cores; ++core) {
    auto& me = of(core);
    me.core = core;
    me.misses.resize(misses);
    me.bypasses.resize(bypasses > 0 ? bypasses : misses);
  }
}

void Timing::bypassed(int core, Address address, unsigned bytes, unsigned writes) {
  auto& me = of(core);
  if (writes > 0) dram_.post(address, writes * unit_);
  auto& slot = me.bypasses.oldest();
  const Times start = later(me.now, slot);
  slot = dram_.serve(core, address, bytes, start);
  me.all_bypassed = later(me.all_bypassed, slot);
  me.bypasses.next();
  me.now = start + std::max(per_access_, std::nearbyint(bytes * bypass_ps_per_byte_));
}

void Timing::prefetched(CoreClock& me, Address line, const Found& from, unsigned writes) {
  if (writes > 0) dram_.post(line, writes * unit_);
  me.ahead.add(line, ready(me, from, line, me.now));
}

// Returns when a line from a cache of another core is there.
Times Timing::transferred(const Found& found, const Times& start) const {
  const bool below_last = found.level < caches_;
  const Ps transfer = below_last ? shared_transfer_ : remote_transfer_;
  return start + std::max(transfer, below_last ? levels_[static_cast<std::size_t>(found.level)].latency : 0);
}

void Timing::drain(int core) {
  auto& me = of(core);
  for (const auto& done : me.misses.all()) me.now = later(me.now, done);
  me.now = later(me.now, me.all_bypassed);
}

}  // namespace nearfield::sim

#include "sim/memory/timing.hpp"

namespace nearfield::sim {
namespace {

constexpr std::size_t most_ahead = 64;  // prefetched lines whose arrival a core remembers

}  // namespace

Timing::Timing(const Machine& machine, const std::array<double, lanes>& slowdown)
    : cores_(static_cast<std::size_t>(machine.cores)),
      dram_(machine, slowdown),
      unit_(static_cast<std::uint64_t>(machine.caches.back().line_bytes / machine.caches.back().sub_blocks)) {
  const auto ps = [&](double cycles) { return ps_from_ns(cycles / machine.core.clock_ghz); };
  per_access_ = ps(machine.core.cycles_per_access);
  shared_transfer_ = ps(machine.transfers.shared_cycles);
  remote_transfer_ = ps(machine.transfers.remote_cycles);
  bypass_ps_per_byte_ = machine.dram.gb_per_s_bypass > 0 ? 1e3 / machine.dram.gb_per_s_bypass : 0;
  const auto* before = &machine.caches.front();
  for (const auto& cache : machine.caches) {
    Level level{ps(cache.latency_cycles), 0};
    if (cache.bytes_per_cycle > 0) level.per_unit = ps(before->line_bytes / cache.bytes_per_cycle);
    levels_.push_back(level);
    before = &cache;
  }
  for (auto& core : cores_) {
    const int misses = std::max(1, machine.core.outstanding_misses), bypass = machine.core.outstanding_bypass;
    core.under_way.resize(static_cast<std::size_t>(misses));
    core.bypassing.resize(static_cast<std::size_t>(bypass > 0 ? bypass : misses));
    core.port_free.resize(levels_.size());
    if (machine.prefetcher) core.ahead.resize(most_ahead);
  }
}

void Timing::bypassed(int core, Address address, unsigned bytes, const Traffic& traffic) {
  auto& me = of(core);
  if (traffic.writes > 0) dram_.post(address, static_cast<std::uint64_t>(traffic.writes) * unit_);
  auto& slot = me.bypassing[me.oldest_bypass];
  const Times start = later(me.now, slot);
  slot = dram_.serve(core, address, bytes, start);
  me.all_bypassed = later(me.all_bypassed, slot);
  me.oldest_bypass = me.oldest_bypass + 1 == me.bypassing.size() ? 0 : me.oldest_bypass + 1;
  me.now = start + std::max(per_access_, std::nearbyint(bytes * bypass_ps_per_byte_));
}

void Timing::prefetched(int core, Address line, const Found& from, const Traffic& traffic) {
  auto& me = of(core);
  if (traffic.writes > 0) dram_.post(line, static_cast<std::uint64_t>(traffic.writes) * unit_);
  me.ahead[me.oldest_ahead] = {line, ready(core, from, line, me.now)};
  me.oldest_ahead = (me.oldest_ahead + 1) % me.ahead.size();
}

void Timing::wait_for_prefetched(int core, Address line) {
  auto& me = of(core);
  for (auto& [address, there] : me.ahead)
    if (address == line) {
      me.now = later(me.now, there);
      address = ~Address{0};
    }
}

void Timing::drain(int core) {
  auto& me = of(core);
  for (const auto& done : me.under_way) me.now = later(me.now, done);
  me.now = later(me.now, me.all_bypassed);
}

}  // namespace nearfield::sim

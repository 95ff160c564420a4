#include "sim/memory/dram.hpp"

namespace nearfield::sim {

DramTiming::DramTiming(const Machine& machine, const std::array<double, num_memory_speeds>& slowdown)
    : cores_per_memory_(machine.dram.shared_by > 0 ? machine.dram.shared_by : machine.cores),
      num_homes_(static_cast<std::size_t>((machine.cores + cores_per_memory_ - 1) / cores_per_memory_)),
      memories_(num_homes_ * (1 + machine.dram.tiers.size())),
      remote_latency_(ps_from_ns(machine.dram.remote_ns)),
      bank_bytes_(static_cast<std::uint64_t>(machine.dram.bank_interleave_bytes)),
      granule_bytes_(static_cast<std::uint64_t>(machine.caches.back().line_bytes / machine.caches.back().sub_blocks)),
      tier_page_bytes_(machine.pages.page_bytes) {
  const auto& dram = machine.dram;
  const double through_caches_ns = machine.caches.back().latency_cycles / machine.core.clock_ghz;
  dram_speed_ = make_speed(dram.latency_ns, dram.gb_per_s, through_caches_ns, slowdown);
  double share = 0;
  for (const MemoryTier& tier : dram.tiers) {
    tier_speeds_.push_back(make_speed(tier.latency_ns, tier.gb_per_s, through_caches_ns, slowdown));
    share += tier.share;
    cumulative_tier_shares_.push_back(static_cast<std::uint64_t>(std::nearbyint(share * 0x1p32)));
  }
  for (std::size_t l = 0; l < num_memory_speeds; ++l) bank_busy_.at[l] = ps_from_ns(dram.bank_busy_ns * slowdown[l]);
  for (std::size_t home = 0; home < num_homes_; ++home)
    if (dram.banks > 1 && dram.bank_busy_ns > 0)
      memory_of(home, 0).bank_free.resize(static_cast<std::size_t>(dram.banks));
}

DramTiming::Speed DramTiming::make_speed(double latency_ns, double gb_per_s, double through_caches_ns,
                                         const std::array<double, num_memory_speeds>& slowdown) const {
  Speed speed;
  for (std::size_t l = 0; l < num_memory_speeds; ++l) {
    speed.ps_per_byte[l] = gb_per_s > 0 ? 1e3 / gb_per_s * slowdown[l] : 0;
    speed.device_latency.at[l] = ps_from_ns((latency_ns - through_caches_ns) * slowdown[l]);
    speed.latency.at[l] = ps_from_ns(through_caches_ns + (latency_ns - through_caches_ns) * slowdown[l]);
  }
  speed.granule_bus_time = compute_bus_time(speed, granule_bytes_);
  return speed;
}

}  // namespace nearfield::sim

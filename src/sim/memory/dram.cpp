#include "sim/memory/dram.hpp"

namespace nearfield::sim {

DramTiming::DramTiming(const Machine& machine, const std::array<double, num_memory_speeds>& slowdown)
    : cores_per_memory_(machine.dram.shared_by > 0 ? machine.dram.shared_by : machine.cores),
      memories_(static_cast<std::size_t>((machine.cores + cores_per_memory_ - 1) / cores_per_memory_)),
      remote_(ps_from_ns(machine.dram.remote_ns)),
      bank_bytes_(static_cast<std::uint64_t>(machine.dram.bank_interleave_bytes)),
      granule_bytes_(static_cast<std::uint64_t>(machine.caches.back().line_bytes / machine.caches.back().sub_blocks)) {
  const auto& dram = machine.dram;
  const double through_caches_ns = machine.caches.back().latency_cycles / machine.core.clock_ghz;
  for (std::size_t l = 0; l < num_memory_speeds; ++l) {
    ps_per_byte_[l] = dram.gb_per_s > 0 ? 1e3 / dram.gb_per_s * slowdown[l] : 0;
    device_latency_.at[l] = ps_from_ns((dram.latency_ns - through_caches_ns) * slowdown[l]);
    latency_.at[l] = ps_from_ns(through_caches_ns + (dram.latency_ns - through_caches_ns) * slowdown[l]);
    bank_busy_.at[l] = ps_from_ns(dram.bank_busy_ns * slowdown[l]);
  }
  granule_bus_time_ = compute_bus_time(granule_bytes_);
  for (auto& memory : memories_)
    if (dram.banks > 1 && dram.bank_busy_ns > 0) memory.bank_free.resize(static_cast<std::size_t>(dram.banks));
}

}  // namespace nearfield::sim

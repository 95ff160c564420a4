// DRAM timing. Each memory of a node has one bus, which cores and devices share, and banks, each of which is busy for a
// fixed time after an access. Each tier of a memory (MemoryTier) has a bus of its own, and no banks. At a slower memory
// speed, the latency beyond the last-level cache is longer and the bus has less bandwidth.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "machine/machine.hpp"
#include "sim/engine/time_vector.hpp"
#include "sim/memory/access.hpp"
#include "sim/memory/bus.hpp"

namespace nearfield::sim {

class DramTiming {
 public:
  DramTiming(const Machine& machine, const std::array<double, num_memory_speeds>& slowdown);

  // Returns the time at which the data of a core's access arrives, if the access may start at `start`.
  TimeVector serve_core_access(int core, Address address, std::uint64_t bytes, const TimeVector& start) {
    const std::size_t home = home_of(address), tier = tier_of(address);
    TimeVector ready = reserve_bus_and_bank(home, tier, address, bytes, start) + speed_of(tier).latency;
    if (num_homes_ > 1 && home != static_cast<std::size_t>(core / cores_per_memory_)) ready += remote_latency_;
    return ready;
  }
  // Returns the time at which the last byte of a device's access has passed the bus.
  TimeVector serve_device_access(Address address, std::uint64_t bytes, const TimeVector& start) {
    const std::size_t tier = tier_of(address);
    return reserve_bus_and_bank(home_of(address), tier, address, bytes, start) + bus_time(tier, bytes);
  }
  // Returns the time at which `granules` consecutive granules from `address` on have passed the bus. If a granule
  // becomes the last reservation of the bus, the remaining granules are appended directly after it.
  TimeVector serve_device_granules(Address address, Count granules, TimeVector start) {
    for (; granules > 0; --granules, address += granule_bytes_) {
      start = serve_device_access(address, granule_bytes_, start);
      if (!has_one_memory_without_banks() || !memories_.front().bus.becomes_free_at(start)) continue;
      TimeVector remaining_time = dram_speed_.granule_bus_time;
      for (auto& time : remaining_time.at) time *= static_cast<Ps>(granules - 1);
      memories_.front().bus.append_reservation(remaining_time);
      return start + remaining_time;
    }
    return start;
  }
  // Returns one of the cores to which the memory of this address is local.
  int local_core_of(Address address) const { return static_cast<int>(home_of(address)) * cores_per_memory_; }
  // Returns the latency of a device's read that begins at this address. A read pays it once, since its lines are
  // pipelined.
  const TimeVector& device_latency(Address address) const { return speed_of(tier_of(address)).device_latency; }
  bool has_one_memory_without_banks() const { return memories_.size() == 1 && memories_.front().bank_free.empty(); }
  // Appends a write-back after all other traffic of the bus. No core waits for it. `address` is the address of the
  // access that caused the write-back; it may lie in another memory tier than the line that is written back.
  void post_write_back(Address address, std::uint64_t bytes) {
    const std::size_t tier = tier_of(address);
    memory_of(home_of(address), tier).bus.append_reservation(bus_time(tier, bytes));
  }

 private:
  friend struct plain::TimingKernel;
  friend struct wide::TimingKernel;
  struct MemoryState {
    Bus bus;
    std::vector<TimeVector> bank_free;
  };
  // The speed of the DRAM, or of a tier.
  struct Speed {
    std::array<double, num_memory_speeds> ps_per_byte{};
    TimeVector latency, device_latency, granule_bus_time;
  };

  Speed make_speed(double latency_ns, double gb_per_s, double through_caches_ns,
                   const std::array<double, num_memory_speeds>& slowdown) const;
  std::size_t home_of(Address address) const {
    return num_homes_ == 1 ? 0 : (address >> home_memory_shift) % num_homes_;
  }
  // Returns the number of the page's memory tier, counted from 1; 0 if the page lies in the DRAM. The pages of a tier
  // are spread evenly over any range of addresses. If a tier's share grows, it keeps its pages and gets additional
  // ones.
  std::size_t tier_of(Address address) const {
    if (tier_speeds_.empty()) [[likely]]
      return 0;
    const auto hash = static_cast<std::uint32_t>(address / tier_page_bytes_ * 0x9E3779B1U);
    for (std::size_t tier = 1; tier <= tier_speeds_.size(); ++tier)
      if (hash < cumulative_tier_shares_[tier - 1]) return tier;
    return 0;
  }
  const Speed& speed_of(std::size_t tier) const { return tier == 0 ? dram_speed_ : tier_speeds_[tier - 1]; }
  MemoryState& memory_of(std::size_t home, std::size_t tier) { return memories_[tier * num_homes_ + home]; }
  TimeVector bus_time(std::size_t tier, std::uint64_t bytes) const {
    if (bytes == granule_bytes_) [[likely]]
      return speed_of(tier).granule_bus_time;
    return compute_bus_time(speed_of(tier), bytes);
  }
  static TimeVector compute_bus_time(const Speed& speed, std::uint64_t bytes) {
    TimeVector result;
    for (std::size_t l = 0; l < num_memory_speeds; ++l)
      result.at[l] = std::nearbyint(static_cast<double>(bytes) * speed.ps_per_byte[l]);
    return result;
  }
  // Reserves the bus and the bank for an access. Returns the time at which both are free and the access begins.
  TimeVector reserve_bus_and_bank(std::size_t home, std::size_t tier, Address address, std::uint64_t bytes,
                                  const TimeVector& start) {
    MemoryState& memory = memory_of(home, tier);
    if (memory.bank_free.empty()) return memory.bus.reserve(start, bus_time(tier, bytes));
    auto& bank = memory.bank_free[address / bank_bytes_ % memory.bank_free.size()];
    const TimeVector access_start = memory.bus.reserve(later(start, bank), bus_time(tier, bytes));
    bank = access_start + bank_busy_;
    return access_start;
  }

  int cores_per_memory_;
  std::size_t num_homes_;              // memories of cores
  std::vector<MemoryState> memories_;  // the DRAM of each home, then the first tier of each home, and so on
  Speed dram_speed_;
  std::vector<Speed> tier_speeds_;
  std::vector<std::uint64_t> cumulative_tier_shares_;  // the shares of the tiers, added up, in parts of 2^32
  TimeVector bank_busy_;
  Ps remote_latency_;
  std::uint64_t bank_bytes_, granule_bytes_, tier_page_bytes_;
};

}  // namespace nearfield::sim

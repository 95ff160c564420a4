// DRAM timing. Each memory of a node has one bus, which cores and devices share, and banks, each of which is busy for a
// fixed time after an access. At a slower memory speed, the latency beyond the last-level cache is longer and the bus
// has less bandwidth.
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
    const auto home = home_memory_of(address);
    TimeVector ready = reserve_bus_and_bank(memories_[home], address, bytes, start) + latency_;
    if (memories_.size() > 1 && home != static_cast<std::size_t>(core / cores_per_memory_)) ready += remote_;
    return ready;
  }
  // Returns the time at which the last byte of a device's access has passed the bus.
  TimeVector serve_device_access(Address address, std::uint64_t bytes, const TimeVector& start) {
    return reserve_bus_and_bank(memories_[home_memory_of(address)], address, bytes, start) + bus_time(bytes);
  }
  // Same for `granules` consecutive granules from `address` on. Once a granule is the last reservation of the bus, the
  // remaining granules are appended directly after it.
  TimeVector serve_device_granules(Address address, Count granules, TimeVector start) {
    for (; granules > 0; --granules, address += granule_bytes_) {
      start = serve_device_access(address, granule_bytes_, start);
      auto& memory = memories_[home_memory_of(address)];
      if (memories_.size() > 1 || !memory.bank_free.empty() || !memory.bus.becomes_free_at(start)) continue;
      TimeVector rest = granule_bus_time_;
      for (auto& time : rest.at) time *= static_cast<Ps>(granules - 1);
      memory.bus.append_reservation(rest);
      return start + rest;
    }
    return start;
  }
  // Returns one of the cores to which the memory of this address is local.
  int local_core_of(Address address) const { return static_cast<int>(home_memory_of(address)) * cores_per_memory_; }
  // Returns the DRAM latency that a device's read pays once per transfer, since its lines are pipelined.
  const TimeVector& device_latency() const { return device_latency_; }
  bool has_one_memory_without_banks() const { return memories_.size() == 1 && memories_.front().bank_free.empty(); }
  // Appends a write-back after all other traffic of the bus. No core waits for it.
  void post_write_back(Address address, std::uint64_t bytes) {
    memories_[home_memory_of(address)].bus.append_reservation(bus_time(bytes));
  }

 private:
  friend struct plain::TimingKernel;
  friend struct wide::TimingKernel;
  struct HomeMemory {
    Bus bus;
    std::vector<TimeVector> bank_free;
  };

  std::size_t home_memory_of(Address address) const {
    return memories_.size() == 1 ? 0 : (address >> home_shift) % memories_.size();
  }
  TimeVector bus_time(std::uint64_t bytes) const {
    if (bytes == granule_bytes_) [[likely]]
      return granule_bus_time_;
    return compute_bus_time(bytes);
  }
  TimeVector compute_bus_time(std::uint64_t bytes) const {
    TimeVector result;
    for (std::size_t l = 0; l < num_memory_speeds; ++l)
      result.at[l] = std::nearbyint(static_cast<double>(bytes) * ps_per_byte_[l]);
    return result;
  }
  // Reserves the bus and the bank for an access. Returns the time at which both are free and the access begins.
  TimeVector reserve_bus_and_bank(HomeMemory& memory, Address address, std::uint64_t bytes, const TimeVector& start) {
    if (memory.bank_free.empty()) return memory.bus.reserve(start, bus_time(bytes));
    auto& bank = memory.bank_free[address / bank_bytes_ % memory.bank_free.size()];
    const TimeVector begun = memory.bus.reserve(later(start, bank), bus_time(bytes));
    bank = begun + bank_busy_;
    return begun;
  }

  int cores_per_memory_;
  std::vector<HomeMemory> memories_;
  std::array<double, num_memory_speeds> ps_per_byte_{};
  TimeVector latency_, device_latency_, bank_busy_, granule_bus_time_;
  Ps remote_;
  std::uint64_t bank_bytes_;
  std::uint64_t granule_bytes_;
};

}  // namespace nearfield::sim

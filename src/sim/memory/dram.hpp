// Computes when memory answers. Each memory has one bus, which cores and devices share, and banks, which are busy for a
// while after each access. At a slower memory speed everything beyond the last cache takes longer, and the bus carries
// less.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "machine/machine.hpp"
#include "sim/memory/bus.hpp"
#include "sim/memory/memory.hpp"

namespace nearfield::sim {

class DramTiming {
 public:
  DramTiming(const Machine& machine, const std::array<double, speeds>& slowdown);

  // Returns when the data of a core's access is there; the access may start at `start`.
  Times serve(int core, Address address, std::uint64_t bytes, const Times& start) {
    const auto home = home_of(address);
    Times ready = occupy(memories_[home], address, bytes, start) + latency_;
    if (memories_.size() > 1 && home != static_cast<std::size_t>(core / cores_per_memory_)) ready += remote_;
    return ready;
  }
  // Returns when the last byte of a device's access has passed.
  Times pass(Address address, std::uint64_t bytes, const Times& start) {
    return occupy(memories_[home_of(address)], address, bytes, start) + on_bus(bytes);
  }
  // The same for `units` one after the other, from this one on. As soon as one of them passes behind all others, the
  // rest follow it directly.
  Times pass_units(Address address, Count units, Times start) {
    for (; units > 0; --units, address += unit_bytes_) {
      start = pass(address, unit_bytes_, start);
      auto& memory = memories_[home_of(address)];
      if (memories_.size() > 1 || !memory.bank_free.empty() || !memory.bus.is_free_from(start)) continue;
      Times rest = unit_on_bus_;
      for (auto& time : rest.at) time *= static_cast<Ps>(units - 1);
      memory.bus.append(rest);
      return start + rest;
    }
    return start;
  }
  // Returns one of the cores that have the memory of this address beside them.
  int core_at(Address address) const { return static_cast<int>(home_of(address)) * cores_per_memory_; }
  // The latency that a device's read adds once: its next lines follow directly behind.
  const Times& device_latency() const { return device_latency_; }
  // Returns whether there is one memory, which has no banks.
  bool is_plain() const { return memories_.size() == 1 && memories_.front().bank_free.empty(); }
  // Puts a write-back on the bus as soon as that is free; nobody waits for it.
  void post(Address address, std::uint64_t bytes) { memories_[home_of(address)].bus.append(on_bus(bytes)); }

 private:
  friend struct plain::TimingSteps;
  friend struct wide::TimingSteps;
  struct Memory_ {
    Bus bus;
    std::vector<Times> bank_free;
  };

  std::size_t home_of(Address address) const {
    return memories_.size() == 1 ? 0 : (address >> home_shift) % memories_.size();
  }
  Times on_bus(std::uint64_t bytes) const {
    if (bytes == unit_bytes_) [[likely]]
      return unit_on_bus_;
    return bytes_on_bus(bytes);
  }
  Times bytes_on_bus(std::uint64_t bytes) const {
    Times result;
    for (std::size_t l = 0; l < speeds; ++l)
      result.at[l] = std::nearbyint(static_cast<double>(bytes) * ps_per_byte_[l]);
    return result;
  }
  // Returns when the access begins: as soon as the bus and the bank are free.
  Times occupy(Memory_& memory, Address address, std::uint64_t bytes, const Times& start) {
    if (memory.bank_free.empty()) return memory.bus.occupy(start, on_bus(bytes));
    auto& bank = memory.bank_free[address / bank_bytes_ % memory.bank_free.size()];
    const Times begun = memory.bus.occupy(later(start, bank), on_bus(bytes));
    bank = begun + bank_busy_;
    return begun;
  }

  int cores_per_memory_;
  std::vector<Memory_> memories_;
  std::array<double, speeds> ps_per_byte_{};
  Times latency_, device_latency_, bank_busy_, unit_on_bus_;
  Ps remote_;
  std::uint64_t bank_bytes_;
  std::uint64_t unit_bytes_;
};

}  // namespace nearfield::sim

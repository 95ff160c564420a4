// The simulated memory of a node for a program's own addresses: folds them (address_space.hpp) and collects accesses, so
// that the memory gets many at a time. One thread calls it.
#pragma once

#include "sim/memory/memory.hpp"
#include "trace/address_space.hpp"

namespace nearfield::trace {

class VirtualMemory {
 public:
  // Throws std::invalid_argument as sim::Memory does.
  VirtualMemory(const Machine& machine, const std::array<double, sim::speeds>& memory_slowdown)
      : memory_(machine, memory_slowdown), cores_(machine.cores) {}

  int cores() const { return cores_; }

  // `core` is one of cores(), `bytes` from 1 to a region's. Throws std::overflow_error for a region too many; then the
  // accesses before that one have been made.
  void access(int core, sim::Access kind, std::uint64_t address, std::uint32_t bytes) {
    if (core != core_) [[unlikely]] {
      flush();
      core_ = core;
    }
    const auto in_region = AddressSpace::region_bytes - (address & (AddressSpace::region_bytes - 1));
    if (bytes > in_region) [[unlikely]] {  // the next region may have any number
      access(core, kind, address, static_cast<std::uint32_t>(in_region));
      return access(core, kind, address + in_region, static_cast<std::uint32_t>(bytes - in_region));
    }
    pending_[count_] = {space_.fold(address), bytes, kind};
    if (++count_ == pending_.size()) flush();
  }

  // Makes the accesses that are collected.
  void flush() {
    memory_.replay(core_, {pending_.data(), count_});
    count_ = 0;
  }

  // Returns the counts of all accesses so far.
  sim::Counts counts() {
    flush();
    return memory_.counts();
  }
  void reset_counts() {
    flush();
    memory_.reset_counts();
  }
  // Waits until nothing is under way on any core. Returns the time of the core that is last, at each speed of memory.
  sim::Times finished() {
    flush();
    sim::Times last;
    for (int core = 0; core < cores_; ++core) {
      memory_.drain(core);
      last = later(last, memory_.now(core));
    }
    return last;
  }

 private:
  sim::Memory memory_;
  AddressSpace space_;
  int cores_, core_ = 0;
  std::array<sim::Memory::Reference, 4096> pending_;
  std::size_t count_ = 0;
};

}  // namespace nearfield::trace

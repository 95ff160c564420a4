// The simulated memory of a node, addressed by the virtual addresses of a program. Maps regions of 1 GiB, in the order
// of their first touch, into the 128 GiB of a simulated node (address_space.hpp), and passes accesses to the memory in
// batches. Not thread-safe.
#pragma once

#include <stdexcept>

#include "machine/machine.hpp"
#include "sim/memory/address_space.hpp"
#include "sim/memory/counts.hpp"
#include "sim/memory/memory.hpp"

namespace nearfield::trace {

class VirtualMemory {
 public:
  // Throws std::invalid_argument for the same reasons as sim::NodeMemory.
  VirtualMemory(const Machine& machine, const std::array<double, sim::num_memory_speeds>& memory_slowdown)
      : memory_(machine, memory_slowdown), space_(region_bytes, RegionAllocator{}), num_cores_(machine.cores) {}

  int num_cores() const { return num_cores_; }

  // Performs an access, or adds it to the batch. `core` is from 0 to cores() - 1; `bytes` is from 1 to the size of a
  // region. Throws std::overflow_error if the addresses touch more than 128 regions; all earlier accesses have been
  // performed or batched.
  void access(int core, sim::Access kind, std::uint64_t address, std::uint32_t bytes) {
    if (core != batch_core_) [[unlikely]] {
      flush();
      batch_core_ = core;
    }
    const auto bytes_in_region = space_.bytes_to_region_end(address);
    if (bytes > bytes_in_region) [[unlikely]] {  // split, because the next region may be mapped anywhere
      access(core, kind, address, static_cast<std::uint32_t>(bytes_in_region));
      return access(core, kind, address + bytes_in_region, static_cast<std::uint32_t>(bytes - bytes_in_region));
    }
    batch_[batch_size_] = {space_.to_node_address(address), bytes, kind};
    if (++batch_size_ == batch_.size()) flush();
  }

  // Performs the batched accesses.
  void flush() {
    memory_.replay(batch_core_, {batch_.data(), batch_size_});
    batch_size_ = 0;
  }

  // Returns the event counts of all accesses so far, including batched ones.
  sim::Counts counts() {
    flush();
    return memory_.counts();
  }
  void reset_counts() {
    flush();
    memory_.reset_counts();
  }
  // Waits until no access is in flight on any core. Returns, for each memory
  // speed, the time of the core whose clock is furthest ahead.
  sim::TimeVector drain_all_cores() {
    flush();
    sim::TimeVector latest;
    for (int core = 0; core < num_cores_; ++core) {
      memory_.drain(core);
      latest = later(latest, memory_.now(core));
    }
    return latest;
  }

 private:
  static constexpr std::uint64_t region_bytes = std::uint64_t{1} << 30, max_regions = 128;
  struct RegionAllocator {
    std::uint64_t num_regions = 0;
    std::uint64_t operator()() {
      if (num_regions == max_regions)
        throw std::overflow_error(
            "the addresses are in more than 128 regions of 1 GiB, and a simulated node has 128 GiB");
      return num_regions++ * region_bytes;
    }
  };

  sim::NodeMemory memory_;
  sim::AddressSpace space_;
  int num_cores_, batch_core_ = 0;
  std::array<sim::Reference, 4096> batch_;
  std::size_t batch_size_ = 0;
};

}  // namespace nearfield::trace

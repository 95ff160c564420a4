// One simulated node: its memory under all variants, the clocks of its cores, and the allocation of addresses. Without
// memory effects, a node has clocks only: loads, stores and DMA take no time, so that only the times of the network and
// of the MPI library remain.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sim/engine/config_clock.hpp"
#include "sim/memory/access.hpp"
#include "sim/node/buffer.hpp"
#include "sim/node/perf_counters.hpp"

namespace nearfield {
struct Machine;
}

namespace nearfield::sim {

class NodeMemory;  // memory/memory.hpp
struct Counts;     // counts.hpp

// `count` accesses of `bytes` each, `stride_bytes` apart.
struct Sweep {
  Access kind = Access::load;
  unsigned bytes = 0;
  Address address = 0;
  std::uint64_t count = 1;
  std::int64_t stride_bytes = 0;
  double work_cycles = 0;  // computation per access, in addition to the issue of the access
};

class Node {
 public:
  struct Options {
    int variants = 1;
    bool limits_ways = false;  // a variant's policy restricts injections to some ways (InjectionTarget::ways)
    std::array<double, num_memory_speeds> memory_slowdown{1, 1, 1, 1};
    bool has_memory_effects = true;
  };
  Node(const Machine& machine, const Options& options);
  ~Node();

  int num_variants() const { return num_variants_; }
  bool has_memory() const { return memory_ != nullptr; }
  NodeMemory& memory() { return *memory_; }
  const NodeMemory& memory() const { return *memory_; }

  // Allocates whole pages in the memory nearest to the core. Returns their address. Allocations in one memory follow
  // each other in the order of the calls. Throws std::length_error if the node's memory is full.
  Address allocate(int core, std::uint64_t bytes);
  std::uint64_t page_bytes() const { return page_bytes_; }

  // ---- clocks of cores
  ConfigClock now(int core) const;
  Ps first(int core) const;
  void advance(int core, Ps duration);
  void wait_until(int core, const ConfigClock& instant);
  void drain(int core);

  // ---- accesses of cores
  void access(int core, Access kind, Address address, unsigned bytes);
  void sweep(int core, Access kind, Address address, std::uint64_t count, std::int64_t stride_bytes, unsigned bytes);
  void sweep(int core, std::span<const Sweep> sweeps);
  // Simulates the accesses of a recorded trace.
  void replay(int core, std::span<const Reference> references);
  // Accesses every byte of a range: in words of 8 bytes, and the remainder by one access.
  void touch(int core, Access kind, Address address, std::uint64_t bytes);
  void copy(int core, Address to, Address from, std::uint64_t bytes);
  // Copies `bytes` of data from `from_offset` of one buffer to `to_offset` of another, one contiguous piece after the
  // other. If one of the buffers is not contiguous, each piece takes Messaging::piece_ns more.
  void copy(int core, const Buffer& to, std::uint64_t to_offset, const Buffer& from, std::uint64_t from_offset,
            std::uint64_t bytes);
  // Accesses `bytes` of a buffer's data, from `offset` on.
  void touch(int core, Access kind, const Buffer& buffer, std::uint64_t offset, std::uint64_t bytes);

  // ---- DMA
  // Each call begins at the time `start` and returns the completion time. `targets` has one entry per variant.
  ConfigClock dma_write(Address address, std::uint64_t bytes, std::span<const InjectionTarget> targets,
                        const ConfigClock& start);
  ConfigClock dma_read(Address address, std::uint64_t bytes, const ConfigClock& start);

  void invalidate_range(Address address, std::uint64_t bytes);
  void invalidate_all();
  Counts counts(int variant) const;
  void reset_counts();
  // From this call on, the accesses of variant 0 are counted for each core separately.
  void enable_per_core_counts() { has_per_core_counts_ = true; }
  // Returns a core's counters since the last reset. Snoops and invalidations are those that other cores and devices
  // caused; all other counts are those of the core's own accesses.
  PerfCounters counters_of(int core);

 private:
  // Must be called before any access of `core` (no_core: a device). If another core or device acted last, attributes
  // the counts since the last such switch to it.
  void attribute_counts_to(int core) {
    if (has_per_core_counts_ && core != counting_core_) [[unlikely]]
      switch_counting_core(core);
  }
  void switch_counting_core(int core);

  ConfigClock& clock_of(int core) { return clocks_[static_cast<std::size_t>(core)]; }
  const ConfigClock& clock_of(int core) const { return clocks_[static_cast<std::size_t>(core)]; }

  int num_variants_;
  std::uint64_t page_bytes_;
  double ps_per_cycle_;
  Ps time_per_piece_;  // extra time for each contiguous piece of a copied datatype
  int cores_per_memory_;
  std::vector<Address> next_free_address_;  // next free address in each memory
  std::unique_ptr<NodeMemory> memory_;
  std::vector<ConfigClock> clocks_;  // the clocks of cores, used without memory effects
  static constexpr int no_core = -1;
  bool has_per_core_counts_ = false;
  int counting_core_ = no_core;
  PerfCounters counts_at_switch_;
  std::vector<PerfCounters> counts_by_core_;  // counts of own accesses, by core
};

// Returns the address of a buffer's data at `offset`, and the length of the contiguous piece from there on.
AddressRange contiguous_range_at(const Buffer& buffer, std::uint64_t offset);

}  // namespace nearfield::sim

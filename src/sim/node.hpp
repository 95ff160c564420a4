// One simulated node: its memory, under all variants at once, and the allocation of addresses. Without memory effects
// there are clocks only: loads, stores and DMA then take no time, so that what is left is the network's and the library's.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sim/access.hpp"
#include "sim/buffer.hpp"
#include "sim/clock.hpp"
#include "sim/seen.hpp"

namespace nearfield {
struct Machine;
}

namespace nearfield::sim {

class Memory;   // memory/memory.hpp
struct Counts;  // counts.hpp

// `count` accesses of `bytes` each, `stride_bytes` apart.
struct Sweep {
  Access kind = Access::load;
  unsigned bytes = 0;
  Address address = 0;
  std::uint64_t count = 1;
  std::int64_t stride_bytes = 0;
  double work_cycles = 0;  // what is computed with each takes so much longer than the access is issued
};

class Node {
 public:
  struct Options {
    int variants = 1;
    bool limits_ways = false;  // a variant's policy does
    std::array<double, speeds> memory_slowdown{1, 1, 1, 1};
    bool memory_effects = true;
  };
  Node(const Machine& machine, const Options& options);
  ~Node();

  int variants() const { return variants_; }
  bool has_memory() const { return memory_ != nullptr; }
  Memory& memory() { return *memory_; }
  const Memory& memory() const { return *memory_; }

  // Returns new whole pages of the memory nearest to the core, where its allocations and those of its neighbours follow
  // each other in the order of the calls.
  Address allocate(int core, std::uint64_t bytes);
  std::uint64_t page_bytes() const { return page_bytes_; }

  // ---- clocks of cores
  Clock now(int core) const;
  Ps first(int core) const;
  void advance(int core, Ps duration);
  void wait_until(int core, const Clock& instant);
  void drain(int core);

  // ---- what cores do
  void access(int core, Access kind, Address address, unsigned bytes);
  void sweep(int core, Access kind, Address address, std::uint64_t count, std::int64_t stride_bytes, unsigned bytes);
  void sweep(int core, std::span<const Sweep> sweeps);
  // Makes the accesses of a recorded program.
  void replay(int core, std::span<const Reference> references);
  // Accesses every byte of a range, in words of 8 bytes and a rest.
  void touch(int core, Access kind, Address address, std::uint64_t bytes);
  void copy(int core, Address to, Address from, std::uint64_t bytes);
  // Copies `bytes` of one buffer's data from `from_offset` on to `to_offset` on in another one's, block by block.
  void copy(int core, const Buffer& to, std::uint64_t to_offset, const Buffer& from, std::uint64_t from_offset,
            std::uint64_t bytes);
  // Accesses a part of one buffer's data by accesses of one kind.
  void touch(int core, Access kind, const Buffer& buffer, std::uint64_t offset, std::uint64_t bytes);

  // ---- what a device does from `start`; they return when it is done. Each variant has a placement
  Clock dma_write(Address address, std::uint64_t bytes, std::span<const InjectionTarget> targets, const Clock& start);
  Clock dma_read(Address address, std::uint64_t bytes, const Clock& start);

  void invalidate_range(Address address, std::uint64_t bytes);
  void invalidate_all();
  Counts counts(int variant) const;
  void reset_counts();
  // Counts variant 0 apart for each core from now on.
  void tell_cores_apart() { cores_apart_ = true; }
  // Returns a core's counts since the last reset, without those that devices cause.
  Seen seen_by(int core);

 private:
  // Is called before any action of `core` (nobody: a device): counts since the last change are of the other one.
  void acting(int core) {
    if (cores_apart_ && core != acting_) [[unlikely]]
      change_who_acts(core);
  }
  void change_who_acts(int core);

  Clock& clock(int core) { return clocks_[static_cast<std::size_t>(core)]; }
  const Clock& clock(int core) const { return clocks_[static_cast<std::size_t>(core)]; }

  int variants_;
  std::uint64_t page_bytes_;
  double ps_per_cycle_;
  int cores_per_memory_;
  std::vector<Address> next_;  // per memory
  std::unique_ptr<Memory> memory_;
  std::vector<Clock> clocks_;  // without memory effects
  static constexpr int nobody = -1;
  bool cores_apart_ = false;
  int acting_ = nobody;
  Seen at_change_;
  std::vector<Seen> own_;  // by core
};

// Where a buffer's data lies from `offset` on, and how far it goes on in one piece.
Run run_at(const Buffer& buffer, std::uint64_t offset);

}  // namespace nearfield::sim

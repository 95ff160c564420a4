// The memory of one simulated node: the caches of its cores, coherence between them, TLBs, DRAM, and the interface
// through which a NIC reads, writes and injects. NodeMemory stores no data, only which caches hold which lines, and the
// state of these lines.
//
// All calls come from one thread, in the order in which the cores act.
//
// NodeMemory can simulate several variants at once: NIC policies, which differ in where a device's writes go. All
// variants execute the same accesses; cache contents and times differ. The results are the same as those of a separate
// memory per variant. One MemoryModel simulates all variants as a group as long as most accesses have the same outcome
// in all variants; after that, each variant has a model of its own.
//
// An access of core c to a line is simulated as follows (the reference memory in the tests implements these rules):
//
// 1. The caches between c and memory are looked up, innermost first. A hit in an exclusive cache moves the line out of
//    that cache. The line is then filled into every cache inside the one that had it, outermost first, except for
//    exclusive caches and, for stores, write-through caches that missed. An evicted line goes to the next outer cache
//    if that cache is exclusive or the line is modified; if a non-exclusive outer cache already has a copy, the copy is
//    merely marked modified. Beyond the last cache, modified lines are written to memory. A line that an inclusive
//    cache evicts is first removed from all caches inside it, and counts as modified if one of these copies was.
// 2. The point where the path to memory meets the paths of other cores is a coherence point: a cache that the cores
//    share, or the memory. There the caches of the other cores are snooped, by a load if the levels inside the point
//    missed, by a store unless c has the line exclusively. A load leaves their copies shared: a modified copy is
//    written to the coherence point (mesi) or stays with its owner (moesi). A store removes their copies.
// 3. A copy is modified, owned (moesi: modified and shared), exclusive or shared. A line that no other core has is
//    filled exclusive; a store makes it modified. If a node consists of linked hubs, the hub of a line's home memory
//    has a directory: a line that is requested at the memory's coherence point and that no other core has modified is
//    read from DRAM, even if other caches hold it.
// 4. Coherence, DRAM and DMA work in units of the coherence granule: the longest cache line of all levels (the longest
//    sub-block, where lines have sub-blocks).
//
// Time: an access costs Core::cycles_per_access. A load that depends on the preceding load (chase) also waits for its
// data. Otherwise the core waits for data only if Core::outstanding_misses misses are in flight, if it is Core::window
// instructions ahead of a load whose data has not arrived, or in drain(). It waits before a non-temporal access if
// Core::outstanding_bypass of these are in flight. Grouping accesses into sweeps changes no count and no time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sim/engine/config_clock.hpp"
#include "sim/memory/access.hpp"

namespace nearfield {
struct Machine;
}

namespace nearfield::sim {

struct Counts;
class MemoryModel;

class NodeMemory {
 public:
  // `memory_slowdown` has a factor for each memory speed: the latency beyond the last cache is multiplied by it, and
  // the bandwidth divided. `limits_ways`: injection targets may restrict some variants to a subset of the ways. Throws
  // std::invalid_argument, which names the cache, for an impossible geometry.
  explicit NodeMemory(const Machine& machine,
                      const std::array<double, num_memory_speeds>& memory_slowdown = {1, 1, 1, 1}, int variants = 1,
                      bool limits_ways = false);
  ~NodeMemory();
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  // ---- accesses of cores
  void access(int core, Access kind, Address address, unsigned bytes);
  // Makes `count` accesses to `bytes` each, `stride_bytes` apart, with a computation of `compute_time` before each.
  void sweep(int core, Access kind, Address address, std::uint64_t count, std::int64_t stride_bytes, unsigned bytes,
             Ps compute_time = 0);
  // Copies in pieces of one L1 line. Each piece is loaded, then stored, in words of 8 bytes; the remainder is copied
  // in single bytes. If the machine has Core::copy_bytes_per_cycle, a piece is one load and one store, by vectors.
  void copy(int core, Address to, Address from, std::uint64_t bytes);
  // Makes the accesses of a recorded trace; or, for a trace of addresses only, accesses of one kind to `bytes` each.
  void replay(int core, std::span<const Reference> trace);
  void replay(int core, std::span<const Address> addresses, Access kind, unsigned bytes);

  // ---- accesses of devices
  // Each call returns the completion time of a transfer that begins at `start`. `targets` has one entry per variant. A
  // read takes a granule that a cache holds in whole or modified from that cache, and other granules from DRAM. A read
  // pays the DRAM latency once, because its lines are pipelined.
  ConfigClock dma_write(Address address, std::uint64_t bytes, std::span<const InjectionTarget> targets,
                        const ConfigClock& start);
  ConfigClock dma_read(Address address, std::uint64_t bytes, const ConfigClock& start);

  // ---- set-up of scenarios; takes no time and is not counted
  void invalidate_range(Address address, std::uint64_t bytes);  // in all caches; modified lines reach memory
  void invalidate_all();

  // From this call on, simulates each variant in a model of its own. Counts and times are the same as without a split.
  // A split makes the simulation faster if many accesses have different outcomes under different variants, so
  // NodeMemory also splits automatically once more than one access in four does. Does nothing if a cache has random
  // replacement, since all variants share one generator.
  void split_into_models();
  bool is_split() const { return models_.size() > 1; }

  // ---- clocks
  const TimeVector& now(int core, int variant = 0) const;
  ConfigClock clock(int core) const;  // the clock under all variants
  void advance(int core, Ps duration);
  void wait_until(int core, const ConfigClock& instant);
  void drain(int core);  // waits until nothing is in flight

  Counts counts(int variant = 0) const;
  void reset_counts();

  // Returns whether and in which state the core's cache of that level holds the line; for tests and for buffer states.
  CopyState cached_copy_state(int core, int level, Address address, int variant = 0) const;

 private:
  void split_if_faster();
  // Returns the model that simulates a variant, and the number of the variant in that model.
  std::pair<MemoryModel&, int> model_of_variant(int variant) const;
  template <class Function>
  void simulate(Function&& function);
  template <class Function>
  ConfigClock transfer(const ConfigClock& start, Function&& function);
  void check_fast_path() const;

  int num_cores_, num_variants_;
  std::unique_ptr<const Machine> machine_;  // if there are several variants
  // One model of all variants or, after a split, one model per variant.
  std::vector<std::unique_ptr<MemoryModel>> models_;
  std::unique_ptr<MemoryModel> slow_model_;  // in development builds: checks the results of the other models
  Count next_split_check_;            // the number of diverging accesses at which the next decision on a split is due
  Count accesses_at_last_check_ = 0;  // accesses of all cores
};

}  // namespace nearfield::sim

// The memory of one simulated node: the caches of its cores, coherence between them, TLBs, DRAM, and the interface
// through which a NIC reads, writes and injects. It keeps no data, only where lines are and in which state.
//
// One thread calls it, for cores in the order in which they act. Memory does not know where accesses come from.
//
// It can simulate several variants at once: NIC policies, under each of which a device writes to another place. All
// variants execute the same accesses; cache contents and times differ. The results are those of a separate memory per
// variant. Work that is common to all variants is done once (variants.hpp), then the clocks of each variant advance.
//
// An access of core c to a line is simulated as follows (the oracle in the tests follows these words):
//
// 1. The caches between c and memory are looked up, innermost first. A hit in an exclusive cache moves the line out of
//    it. The line is then filled into every cache inside the one that had it, outermost first, except for exclusive
//    ones and, for stores, write-through ones that missed. An evicted line goes to the next outer cache: always if
//    that is exclusive, otherwise only if the line is modified; a copy that is present there already is then only
//    marked modified. Beyond the last cache, modified lines are written to memory. A line evicted from an inclusive
//    cache is first removed from all caches inside it, and is modified if one of these copies was.
// 2. Where the path to memory meets the caches of other cores (a coherence point: a cache shared with them, or the
//    memory), these are snooped: by a load if the levels inside that point missed, by a store unless it has exclusive
//    ownership. A load leaves their copies shared: a modified copy is then written to the coherence point (mesi) or
//    stays with its owner (moesi). A store removes their copies.
// 3. A copy is modified, owned (moesi: modified and shared), exclusive or shared. A line that no other core has is
//    filled exclusive; a store makes it modified. If hubs are linked, the line's home has a directory: a line that is
//    requested at the memory's coherence point and that no other core modified is read from DRAM there, whoever else
//    has it.
// 4. Coherence, DRAM and DMA work in the longest line of all caches (the longest sub-block, where lines have these):
//    the coherence granule.
//
// Time: an access costs Core::cycles_per_access. A load that depends on the one before it (chase) also waits for its
// data. Otherwise the core waits for data only if Core::outstanding_misses are in flight, if it is Core::window
// instructions ahead of a load whose data has not arrived, or in drain(); for non-temporal accesses, if
// Core::outstanding_bypass of these are in flight. How accesses are grouped into sweeps changes no count and no time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/engine/config_clock.hpp"
#include "sim/memory/access.hpp"

namespace nearfield {
struct Machine;
}

namespace nearfield::sim {

struct Counts;
class Frames;             // maps pages to frames
class TimingEventBuffer;  // cache outcomes that the timing model has not consumed yet
class Timing;             // the clocks of cores
class Translation;        // TLBs
class StreamPrefetcher;   // one per core

class Memory {
 public:
  // `memory_slowdown` has a factor for each memory speed: the latency beyond the last cache is multiplied by it, and
  // the bandwidth divided. `limits_ways`: injection targets may restrict some variants to a subset of the ways. Throws
  // std::invalid_argument, which names the cache, for an impossible geometry.
  explicit Memory(const Machine& machine, const std::array<double, num_memory_speeds>& memory_slowdown = {1, 1, 1, 1},
                  int variants = 1, bool limits_ways = false);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // ---- accesses of cores
  void access(int core, Access kind, Address address, unsigned bytes);
  // Makes `count` accesses to `bytes` each, `stride_bytes` apart, with `work` of computation per access.
  void sweep(int core, Access kind, Address address, std::uint64_t count, std::int64_t stride_bytes, unsigned bytes,
             Ps work = 0);
  // Copies in pieces of one L1 line. Each piece is loaded, then stored, in words of 8 bytes; the remainder is copied
  // in single bytes.
  void copy(int core, Address to, Address from, std::uint64_t bytes);
  // Makes the accesses of a recorded trace; or accesses of one kind, to `bytes` each.
  void replay(int core, std::span<const Reference> trace);
  void replay(int core, std::span<const Address> addresses, Access kind, unsigned bytes);

  // ---- accesses of devices. Both return when the transfer, which begins at `start`, is complete. A read takes
  // granules that a cache holds whole or modified from that cache, and the rest from DRAM, whose latency it pays once,
  // because the lines are pipelined. `targets` has one entry per variant.
  ConfigClock dma_write(Address address, std::uint64_t bytes, std::span<const InjectionTarget> targets,
                        const ConfigClock& start);
  ConfigClock dma_read(Address address, std::uint64_t bytes, const ConfigClock& start);

  // ---- set-up of scenarios; takes no time and is not counted
  void invalidate_range(Address address, std::uint64_t bytes);  // in all caches; modified lines reach memory
  void invalidate_all();

  // Simulates every access once per variant from now on, in a memory per variant. Counts and times stay what they
  // would have been. This is faster if many accesses differ between variants, so Memory also splits by itself once
  // more than one access in four does. Does nothing if a cache replaces lines at random, since one generator serves
  // all variants.
  void split_variants();
  bool is_split() const { return !split_.empty(); }

  // ---- clocks
  const TimeVector& now(int core, int variant = 0) const;
  ConfigClock clock(int core) const;  // under all variants
  void advance(int core, Ps duration);
  void wait_until(int core, const ConfigClock& instant);
  void drain(int core);  // until nothing is in flight

  Counts counts(int variant = 0) const;
  void reset_counts();

  // Returns whether and in which state the core's cache of that level holds the line; for tests and for buffer states.
  struct Copy {
    bool present = false, modified = false, shared = false;
  };
  Copy copy_in(int core, int level, Address address, int variant = 0) const;

 private:
  using Timings = std::vector<std::unique_ptr<Timing>>;  // one per variant
  struct Caches;                                         // hierarchy.hpp and devices.hpp
  struct CoreContext;                                    // what an access of one core needs
  Memory(const Machine& machine, Timings timings, bool limits_ways);
  void copy_variant(const Memory& other, int variant);
  const CoreContext& core_context(int core) const;
  // Returns whether each variant has a memory of its own. Splits first if that is faster from now on.
  bool split_if_diverging() {
    if (diverging_ < split_check_period) [[likely]]
      return false;
    return split_if_faster();
  }
  bool split_if_faster();
  void flush_timing_events() const;
  // Accesses inside one L1 line, on the fast path for this configuration of caches (core_context.hpp).
  template <class Config>
  void access_line(const CoreContext& context, Access kind, Address address, unsigned bytes, Count times, Ps work);
  template <class Config>
  void run_prefetcher(const CoreContext& context, Address address);
  template <class Config>
  void sweep_lines(const CoreContext& context, Access kind, Address address, std::uint64_t count, std::uint64_t stride,
                   bool downward, unsigned bytes, Ps work);
  struct OfOneKind;
  template <class Trace>
  void replay_all(int core, const Trace& trace);
  template <class Config, class Trace>
  void replay_batch(const CoreContext& context, const Trace& trace, std::size_t begin, std::size_t end,
                    std::size_t prefetch_end, int far_level);
  // The same on the slow path.
  void access_line_slow(const CoreContext& context, Access kind, Address address, unsigned bytes, Count times, Ps work);
  void dispatch_access_line(const CoreContext& context, Access kind, Address address, unsigned bytes, Ps work);
  void translate(const CoreContext& context, Address address, Count times);
  void access_spanning_lines(const CoreContext& context, Access kind, Address address, unsigned bytes, Ps work);
  void access_nontemporal(const CoreContext& context, Access kind, Address address, unsigned bytes, Ps work);
  void add_prefetchers(const Machine& machine);
  // Under several variants:
  struct Outcomes;
  void access_line_per_variant(const CoreContext& context, Access kind, Address address, unsigned bytes, Count times,
                               Ps work);
  template <class Config>
  bool run_prefetcher_per_variant(const CoreContext& context, Address address);
  template <class Config>
  bool run_prefetcher_per_variant(const CoreContext& context, const Outcomes& outcomes);
  void repeat_per_variant(const CoreContext& context, Access kind, Address address, unsigned bytes, Count count,
                          Ps work);
  template <class Action>
  std::pair<ConfigClock, unsigned char> transfer(Address address, std::uint64_t bytes, const ConfigClock& start,
                                                 const std::array<unsigned char, max_variants>& classes,
                                                 Action&& action);
  template <class Function>
  void for_each_granule(Address address, std::uint64_t bytes, Function&& function);

  std::unique_ptr<Counts> counts_of_tlbs_;  // of TLBs, and page faults
  std::unique_ptr<Caches> caches_;
  std::unique_ptr<Frames> frames_;
  Timings timings_;
  std::unique_ptr<Translation> translation_;
  std::vector<StreamPrefetcher> prefetchers_;  // one per core
  std::unique_ptr<TimingEventBuffer> events_;
  std::vector<CoreContext> contexts_;                     // one per core
  mutable const CoreContext* current_context_ = nullptr;  // whose events are buffered
  std::unique_ptr<const Machine> machine_;                // if there are several variants
  bool limits_ways_;
  std::vector<std::unique_ptr<Memory>> split_;  // one per variant after split_variants(); this one is then empty
  static constexpr Count split_check_period = 1 << 14;  // differing accesses between two decisions whether to split
  // Accesses since the last decision whose outcome differed between variants; `split_check_period` after splitting.
  Count diverging_ = 0;
  Count accesses_at_last_check_ = 0;  // of all cores
  bool translates_ = false;
  bool prefetch_may_evict_trigger_ = false;  // a prefetched line may evict the line whose access triggered the prefetch
};

}  // namespace nearfield::sim

// The memory of one simulated node: its cores' caches, coherence between them, TLBs, DRAM, and the doors through which
// a NIC reads, writes and injects. Contents of memory are not kept, only where lines are and in which state.
//
// One thread calls it, for cores in the order in which they act. Nothing here knows where accesses come from.
//
// It may be simulated under several variants at once: a device writes to another place in each. What cores do is the
// same in all, what caches hold and what the time is differs. The results are those of a memory for each variant; what
// is common to all is done once (variants.hpp), then each variant's clocks go on.
//
// An access of core c to a line goes as follows (the oracle in the tests follows these words):
//
// 1. The caches between c and memory are asked, nearest first. A hit in an exclusive cache moves the line out of it.
//    The line is then put into every cache before the one that had it, outermost first, apart from exclusive ones and,
//    for stores, from write-through ones that missed. A line that makes room goes on to the next cache: always into an
//    exclusive one; into any other one if it is modified and not there yet, and if it is there, it is marked modified;
//    beyond the last cache, modified lines are written to memory. A line evicted from an inclusive cache is first
//    removed from all caches before it, and is modified if one of them was.
// 2. Where the path to memory meets other cores' caches, in a cache shared with them or at the memory, those are asked
//    on a miss before it (a load), or on anything but exclusive ownership (a store). A load leaves their copies shared:
//    a modified one is then written to the meeting point (mesi) or stays its owner's (moesi). A store removes them.
// 3. States of a copy: modified, owned (moesi: modified and shared), exclusive, shared. A line that no other core has
//    is filled exclusive; a store makes it modified.
//    Where hubs are linked, the line's home has a directory: a line that comes to the memory's meeting point and that
//    no other core modified is read from DRAM there, whoever else has it.
// 4. Coherence, DRAM and DMA work in the longest line of all caches (of sub-blocks, where they are): the unit.
//
// Time: an access costs Core::cycles_per_access. A load that depends on the one before it (chase) also waits for its
// data. The core waits for the data of others only when Core::outstanding_misses are under way, when it is Core::window
// instructions ahead of a load that has no data yet, or at drain(); for accesses past the caches when
// Core::outstanding_bypass of their own are under way. How accesses are grouped into sweeps changes no count and no time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/access.hpp"
#include "sim/clock.hpp"

namespace nearfield {
struct Machine;
}

namespace nearfield::sim {

struct Counts;         // counts.hpp
class Frames;          // frames.hpp: where pages lie
class TimedSteps;      // timing_events.hpp: what clocks are to be told of
class Timing;          // timing.hpp: clocks
class Translation;     // tlb.hpp
class StreamFollower;  // prefetcher.hpp

class Memory {
 public:
  // `memory_slowdown` has a factor for each speed: the latency beyond the last cache is multiplied by it, and the
  // bandwidth divided. `limits_ways`: placements of several variants may be limited to some ways. Throws
  // std::invalid_argument, which names the cache, for an impossible geometry.
  explicit Memory(const Machine& machine, const std::array<double, speeds>& memory_slowdown = {1, 1, 1, 1},
                  int variants = 1, bool limits_ways = false);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // ---- what cores do
  void access(int core, Access kind, Address address, unsigned bytes);
  // Makes `count` accesses to `bytes` each, `stride_bytes` apart; the computation between them takes `work` beside each.
  void sweep(int core, Access kind, Address address, std::uint64_t count, std::int64_t stride_bytes, unsigned bytes,
             Ps work = 0);
  // Copies in pieces as long as a line of the nearest cache. Each piece is loaded, then stored, in words of 8 bytes; a
  // rest is copied in single bytes.
  void copy(int core, Address to, Address from, std::uint64_t bytes);
  // Makes the accesses of a recorded trace; or accesses of one kind, of `bytes` each.
  void replay(int core, std::span<const Reference> trace);
  void replay(int core, std::span<const Address> addresses, Access kind, unsigned bytes);

  // ---- what devices do. These return when the transfer, which begins at `start`, is done. A read gets units that a
  // cache has whole or modified from there, and the rest from DRAM, for which it waits once: lines follow one another.
  // Each variant has a placement.
  Clock dma_write(Address address, std::uint64_t bytes, std::span<const Placement> placements, const Clock& start);
  Clock dma_read(Address address, std::uint64_t bytes, const Clock& start);

  // ---- what scenarios do; takes no time and is not counted
  void forget(Address address, std::uint64_t bytes);  // from all caches; modified lines reach memory
  void forget_everything();

  // Gives each variant a memory of its own from now on. Counts and times stay what they would have been. An access then
  // costs as much as one in each of these memories, which is less where many accesses find something else under each
  // variant; so this is also done by itself when that is the case. It does nothing where a cache replaces lines at random,
  // since one generator serves all variants.
  void part();
  bool parted() const { return !apart_.empty(); }

  // ---- clocks
  const Times& now(int core, int variant = 0) const;
  Clock clock(int core) const;  // under all variants
  void advance(int core, Ps duration);
  void wait_until(int core, const Clock& instant);
  void drain(int core);  // until nothing is under way

  Counts counts(int variant = 0) const;
  void reset_counts();

  // Tells whether and in which state the core's cache of that level holds the line; for tests and for buffer states.
  struct Copy {
    bool present = false, modified = false, shared = false;
  };
  Copy copy_in(int core, int level, Address address, int variant = 0) const;

 private:
  using Timings = std::vector<std::unique_ptr<Timing>>;  // one per variant
  struct Caches;                                         // hierarchy.hpp and devices.hpp
  struct Acting;                                         // a core, with all of it at hand
  Memory(const Machine& machine, Timings timings, bool limits_ways);
  void take(const Memory& other, int variant);
  const Acting& acting(int core) const;
  // Returns whether each variant has a memory of its own. Gives them these first, if that is faster from now on.
  bool is_parted() {
    if (differing_ < many) [[likely]]
      return false;
    return part_if_faster();
  }
  bool part_if_faster();
  void tell_clocks() const;
  // Accesses inside one line of the nearest cache, on the fast path for this shape of caches (core_context.hpp).
  template <class Shape>
  void one(const Acting& acting, Access kind, Address address, unsigned bytes, Count times, Ps work);
  template <class Shape>
  void look_ahead(const Acting& acting, Address address);
  template <class Shape>
  void sweep_lines(const Acting& acting, Access kind, Address address, std::uint64_t count, std::uint64_t stride,
                   bool downward, unsigned bytes, Ps work);
  struct OfOneKind;
  template <class Trace>
  void replay_all(int core, const Trace& trace);
  template <class Shape, class Trace>
  void replay_batch(const Acting& acting, const Trace& trace, std::size_t begin, std::size_t end,
                    std::size_t last_ahead, int far_from);
  // The same on the slow path.
  void one_slowly(const Acting& acting, Access kind, Address address, unsigned bytes, Count times, Ps work);
  void one_apart(const Acting& acting, Access kind, Address address, unsigned bytes, Ps work);
  void translate(const Acting& acting, Address address, Count times);
  void some(const Acting& acting, Access kind, Address address, unsigned bytes, Ps work);
  void bypass(const Acting& acting, Access kind, Address address, unsigned bytes, Ps work);
  void add_followers(const Machine& machine);
  // Under several variants:
  struct Outcomes;
  void one_of_several(const Acting& acting, Access kind, Address address, unsigned bytes, Count times, Ps work);
  template <class Shape>
  bool look_ahead_of_several(const Acting& acting, Address address);
  template <class Shape>
  bool look_ahead_of_several(const Acting& acting, const Outcomes& outcomes);
  void rest_of_several(const Acting& acting, Access kind, Address address, unsigned bytes, Count count, Ps work);
  template <class Action>
  std::pair<Clock, unsigned char> transfer(Address address, std::uint64_t bytes, const Clock& start,
                                           const std::array<unsigned char, most_variants>& alike, Action&& action);
  template <class Function>
  void for_each_unit(Address address, std::uint64_t bytes, Function&& function);

  std::unique_ptr<Counts> counts_of_tlbs_;  // and page faults
  std::unique_ptr<Caches> caches_;
  std::unique_ptr<Frames> frames_;
  Timings timings_;
  std::unique_ptr<Translation> translation_;
  std::vector<StreamFollower> followers_;  // one per core
  std::unique_ptr<TimedSteps> steps_;
  std::vector<Acting> acting_;              // one per core
  mutable const Acting* latest_ = nullptr;  // whose steps these are
  std::unique_ptr<const Machine> machine_;  // if there are several variants
  bool limits_ways_;
  std::vector<std::unique_ptr<Memory>> apart_;  // one per variant, after part(): they hold all, and this one nothing
  static constexpr Count many = 1 << 14;        // accesses that differ, after which it is decided whether to part
  // Accesses since the last decision that found something else under some variant; `many` after part().
  Count differing_ = 0;
  Count accesses_before_ = 0;  // of all cores, at the last decision
  bool translates_ = false;
  bool fetches_over_itself_ = false;  // a line fetched ahead may take the place of the line whose access fetched it
};

}  // namespace nearfield::sim

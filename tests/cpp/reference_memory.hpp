// The memory of a simulated node, written to be read: slow, without time, without optimisations. It follows the
// description in src/sim/memory/memory.hpp and shares no code with its implementation; test_memory_oracle.cpp compares
// the two.
//
// Left out: clocks, TLBs, page faults, prefetching, random replacement, snoops (how many caches are snooped depends on
// filters), victims missed again.
//
// Where the description is ambiguous, it is read as follows. The path: a core's caches, innermost first, followed by
// the memory. A part: a sub-block, or the whole line of a cache without sub-blocks.
//
//  - A walk ends at the first cache that has the line, or at the first coherence point at which caches of other cores
//    have it: they supply the line then, and it is filled into the caches inside that point only. A store's walk
//    passes all write-through caches first, whatever they have, and fills the first write-back cache in any case;
//    caches inside that one write through, so none of them has a modified line.
//  - If a walk ends in a cache, the other caches inside that one are snooped, too. If they have the line modified or
//    owned, they supply it.
//  - A shared copy may have other copies in caches that do not have this one on their path. So at a coherence point,
//    the cache there keeps the state of its own copy when caches inside it come to share the line.
//  - A store removes modified copies of others without writing them back; the storing core's copy is modified.
//  - If a modified line leaves an exclusive cache while others have it modified, too, it is older than theirs and is
//    dropped.
//  - mesi: if a modified line leaves an exclusive cache while others keep the line, it is written to memory on its
//    way; moesi: while others keep another line of the granule modified.
//  - The line is the unit of an access: whether others have it is determined per line, what happens to their copies
//    per granule, at all coherence points of the walk. On the own path only the line's own copies change. A short line
//    that is filled into a cache of longer lines stands for a whole line there; the rest is not read.
//  - If all caches write through, a store ends at the memory: one write of a granule, nothing is read.
//  - Non-temporal accesses are one per L1 line, too. The copies that they remove do not count as invalidations.
//  - Modified copies count as write-backs of their level when they are evicted or written because of a device or a
//    non-temporal access, not when they are written because another core loads the line.
//  - A device reads a granule from caches if one has all of it, or if some of it is modified; otherwise from DRAM.
//  - A device's read that invalidates removes all copies of the granule.
//  - Empty ways are filled before any line is evicted; with lru the one emptied last (initially and after
//    invalidate_all(): the lowest first), with tree-plru the lowest. A line injected into n ways goes into the first n
//    of the set: the lowest empty one of them, otherwise the least recently used one. Inclusive outer caches are
//    filled first, as by a core, or become clean and exclusive.
//  - An injected line counts as used when a core's load or store hits it in the cache that it was injected into, or a
//    device reads it.
//  - If a line is inserted into an exclusive cache that has it already, the result is modified if either copy is, and
//    shared if both are: a copy that is not shared is known to be the only one.
#pragma once

#include <list>
#include <vector>

#include "machine/machine.hpp"
#include "reference_cache.hpp"
#include "sim/memory/counts.hpp"
#include "sim/memory/memory.hpp"

namespace nearfield::sim {

class ReferenceMemory {
 public:
  explicit ReferenceMemory(const Machine& machine);

  void access(int core, Access kind, Address address, unsigned bytes);
  void dma_write(Address address, std::uint64_t bytes, const InjectionTarget& target);
  void dma_read(Address address, std::uint64_t bytes);
  void invalidate_range(Address address, std::uint64_t bytes);
  void invalidate_all();

  const Counts& counts() const { return counts_; }
  void reset_counts();
  CopyState cached_copy_state(int core, int level, Address address);

 private:
  using State = ReferenceCache::State;
  using Part = ReferenceCache::Part;

  // ---- between caches
  ReferenceCache* cache_on_path(int core, int level);  // nullptr: the memory
  bool is_exclusive(int level) const;
  bool is_inclusive(int level) const;
  bool writes_through(int level) const;
  std::vector<ReferenceCache*> all_caches();
  std::vector<ReferenceCache*> caches_inside(const ReferenceCache& cache);  // all caches whose path leads through it
  std::vector<ReferenceCache*> other_caches_at(int core,
                                               int level);  // caches whose path meets that of the core at this level
  // Fills the part that holds `address` (into one of the first `among_ways` ways, if not 0) and evicts the victim.
  // Returns how many parts that had.
  std::size_t put(ReferenceCache& cache, Address address, const State& state, int among_ways = 0);
  void evict(ReferenceCache& from, const Part& victim);
  void insert_into_victim_cache(ReferenceCache& cache, Address address, const State& state);
  void drop(ReferenceCache& cache, Address address);  // for other reasons than eviction
  Address granule_of(Address address) const { return address - address % granule_bytes_; }

  // ---- accesses
  struct SnoopedCopies {
    bool had_granule = false, had_granule_modified = false;  // some of it
    bool had_line = false, had_line_modified = false;
    bool shared = true;  // all parts of the granule that they had
  };
  struct Walk {
    int end = 0;  // level of the hit or of the supplying coherence point; number of levels: the memory
    bool is_hit = false;
    bool is_supplied = false;  // by other cores' caches
  };
  void access_line(int core, bool is_store, Address address);
  void load_line(int core, Address address, const Walk& path, State arriving);
  void store_line(int core, Address address, const Walk& path, State arriving);
  void access_nontemporal(Access kind, Address address, Address bytes);
  Walk walk(int core, bool is_store, Address address);
  State take_line(ReferenceCache& cache, Address address);
  SnoopedCopies snoop_others(int core, int point, Address address);
  bool share_copies(int core, int point, Address address);  // returns whether the granule was written to memory
  void invalidate_others(int core, Address address);
  void take_ownership(int core, Address address, int end);
  int first_write_back() const;  // number of levels: none
  bool make_clean(Address granule);
  void remove_all(Address granule);
  void inject(Address granule, const InjectionTarget& target);
  void inject_part(ReferenceCache& cache, Address address, const InjectionTarget& target);

  LevelCounts& count(const ReferenceCache& cache) { return counts_.levels[static_cast<std::size_t>(cache.level)]; }
  void count_dram(Count& cause, Address bytes);

  Machine machine_;
  int levels_ = 0;
  Address granule_bytes_ = 0;
  std::vector<std::vector<ReferenceCache>> caches_;  // by level
  Counts counts_;
};

}  // namespace nearfield::sim

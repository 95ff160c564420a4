// The memory of a simulated node, written for reading: slow, without time, without anything clever. It
// follows the words in src/sim/memory/memory.hpp and shares no code with what implements them; test_memory_oracle.cpp
// compares the two.
//
// Left out: clocks, TLBs, page faults, prefetching, random replacement, snoops (how many caches are
// asked depends on filters), victims missed again.
//
// Where the words leave something open, this is how they are read. The way: a core's caches, nearest first, and the
// memory after them. A part: a sub-block, or the whole line of a cache that has none.
//
//  - A walk ends at the first cache that has the line, or at the first place where the way meets caches of other cores
//    that have the line: it comes from them then, and is put into the caches before that place only. A store's
//    walk passes all caches that write through first, whatever they have, and its line is put into the first one that
//    writes back in any case; in that one's sight is no other core's modified line.
//  - Where a walk ends in a cache, others before that cache are asked, too. If they have the line modified or owned, it
//    comes from them.
//  - A copy that is shared may be in caches that do not have this one on their way. So where ways meet, the cache
//    there keeps its own copy's state when caches before it come to share the line.
//  - A store takes modified lines of others away without writing them; the storing core's one is modified.
//  - What comes modified out of an exclusive cache while others have it modified, too, is older than theirs and
//  forgotten.
//  - mesi: what comes modified out of an exclusive cache, while others keep the line, is written to memory on the way;
//    moesi: while others keep another line of the unit modified.
//  - The line is what the access needs; whether others have it is asked by line, what becomes of their copies by unit,
//  at
//    all places on the walk where the ways meet. On the own way only the line's own copies change. A short line that is
//    put into a cache of longer ones stands for a whole one there; the rest is not read.
//  - If all caches write through, a store ends at the memory: one write of a unit, nothing is read.
//  - Bypassing accesses are one per line of the nearest cache, too. The copies that they remove count as no
//  invalidations.
//  - Modified copies count as write-backs of their level when they are evicted or written for the sake of a device or a
//    bypassing access, not when they are written because another core loads the line.
//  - A device reads a unit from caches if one has all of it, or some of it is modified; else from DRAM.
//  - A device's read that invalidates removes all copies of the unit.
//  - Empty ways are taken before any line makes room; with lru the one emptied last (at the start and after forgetting
//    everything: the lowest first), with tree-plru the lowest. A line injected into n ways goes into the first n of the
//    set: the lowest empty one of them, else the one used least recently. Inclusive caches further out are filled
//    first, as by a core, or become clean and exclusive.
//  - An injected line is used when a core's load or store hits it where it was put, or a device reads it.
//  - A line is put into an exclusive cache that has it already: modified if one of both is, shared if both are:
//    one that is not shared knows that nobody else has the line.
#pragma once

#include <list>
#include <vector>

#include "machine/machine.hpp"
#include "sim/counts.hpp"
#include "sim/memory/memory.hpp"

namespace nearfield::sim {

class ReferenceMemory {
 public:
  explicit ReferenceMemory(const Machine& machine);

  void access(int core, Access kind, Address address, unsigned bytes);
  void dma_write(Address address, std::uint64_t bytes, const Placement& placement);
  void dma_read(Address address, std::uint64_t bytes);
  void forget(Address address, std::uint64_t bytes);
  void forget_everything();

  const Counts& counts() const { return counts_; }
  void reset_counts();
  Memory::Copy copy_in(int core, int level, Address address);

 private:
  struct State {
    bool modified = false;
    bool shared = false;           // with caches that do not have this one on their way
    bool injected_unused = false;  // put here by a device, and nobody came for it
  };
  struct Part {
    Address address = 0;  // of its first byte
    State state;
  };
  struct Line {
    Address address = 0;
    int way = 0;
    std::list<Part> parts;  // the valid ones; never empty
  };
  struct Set {
    std::list<Line> lines;        // most recently used first
    std::vector<int> empty_ways;  // the one emptied last at the end
    std::vector<bool> tree;       // of tree-plru: node n has children 2n and 2n + 1; true: the victim is on the right
  };
  struct OneCache {
    const Cache* geometry = nullptr;
    int level = 0;
    int first_core = 0, last_core = 0;
    std::vector<Set> sets;
  };

  // ---- one cache
  Address part_bytes(const OneCache& cache) const;
  Set& set_of(OneCache& cache, Address address) const;
  Part* find(OneCache& cache, Address address) const;
  std::vector<Part*> find_all(OneCache& cache, Address first, Address bytes) const;  // in a range
  void touch(OneCache& cache, Address address) const;
  void remove(OneCache& cache, Address address) const;
  // Puts the part that holds `address` there (into one of the first ways, if so many are given) and deals with what had
  // to make room. Returns how many parts that was.
  std::size_t put(OneCache& cache, Address address, const State& state, int among_ways = 0);
  int take_way(OneCache& cache, Set& set, int among_ways, Line& victim) const;
  static void start_anew(Set& set, int ways);
  static void point_away_from(Set& set, int way, int ways);
  static int pointed_at(const Set& set, int ways);

  // ---- between caches
  OneCache* on_way(int core, int level);  // null: the memory
  bool is_exclusive(int level) const;
  bool is_inclusive(int level) const;
  bool writes_through(int level) const;
  std::vector<OneCache*> everywhere();
  std::vector<OneCache*> before(const OneCache& cache);        // all whose way leads through it
  std::vector<OneCache*> others_meeting(int core, int level);  // whose way comes to that of the core at this level
  void pass_on(OneCache& from, const Part& victim);
  void put_into_exclusive(OneCache& cache, Address address, const State& state);
  void lose(OneCache& cache, Address address);  // other than by eviction
  Address unit_of(Address address) const { return address - address % unit_bytes_; }

  // ---- accesses
  struct Others {
    bool had_unit = false, had_unit_modified = false;  // some of it
    bool had_line = false, had_line_modified = false;
    bool shared = true;  // all of the unit that they had
  };
  struct Walk {
    int end = 0;  // level of the hit, or where others have it; number of levels: the memory
    bool is_hit = false;
    bool is_supplied = false;  // by others
  };
  void access_line(int core, bool is_store, Address address);
  void load_line(int core, Address address, const Walk& way, State arriving);
  void store_line(int core, Address address, const Walk& way, State arriving);
  void access_bypass(Access kind, Address address, Address bytes);
  Walk walk(int core, bool is_store, Address address);
  State take_from(OneCache& cache, Address address);
  Others look_at_others(int core, int meeting, Address address);
  bool share_with_others(int core, int meeting, Address address);  // whether the unit was written to memory
  void remove_others(int core, Address address);
  void own(int core, Address address, int end);
  int first_write_back() const;  // number of levels: none
  bool make_clean(Address unit);
  void remove_all(Address unit);
  void inject(Address unit, const Placement& placement);
  void inject_part(OneCache& cache, Address address, const Placement& placement);

  LevelCounts& count(const OneCache& cache) { return counts_.levels[static_cast<std::size_t>(cache.level)]; }
  void count_dram(Count& cause, Address bytes);

  Machine machine_;
  int levels_ = 0;
  Address unit_bytes_ = 0;
  std::vector<std::vector<OneCache>> caches_;  // by level
  Counts counts_;
};

}  // namespace nearfield::sim

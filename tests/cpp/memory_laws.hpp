// The laws that the counts and copies of a simulated memory obey, whatever its machine is.
#pragma once

#include <algorithm>
#include <vector>

#include "check.hpp"
#include "machine/machine.hpp"
#include "memory_traces.hpp"
#include "sim/memory/counts.hpp"
#include "sim/memory/memory.hpp"

namespace nearfield::sim {

template <class Action>
void for_each_cache(const Machine& machine, Action action) {
  for (std::size_t level = 0; level < machine.caches.size(); ++level)
    for (int core = 0; core < machine.cores; core += machine.caches[level].shared_by)
      action(core, static_cast<int>(level));
}

inline void counting_laws(const Machine& machine, const Counts& counts, Count accesses, Count nontemporal_bytes) {
  const auto of = [](const LevelCounts& level) { return level.hits + level.misses; };
  CHECK(of(counts.levels[0]) == accesses);
  for (std::size_t level = 1; level < counts.levels.size(); ++level) {
    const LevelCounts &inner = counts.levels[level - 1], &outer = counts.levels[level];
    const bool is_through = machine.caches[level - 1].write == WritePolicy::through;
    // A walk may end at a miss only at a coherence point.
    const bool may_end = level > 1 && machine.caches[level - 1].shared_by > machine.caches[level - 2].shared_by;
    CHECK(of(outer) <= (is_through ? of(inner) : inner.misses));
    CHECK(of(outer) + (may_end ? counts.transfers : 0) >= inner.misses);
    CHECK(outer.injected_unused <= outer.injections);
  }
  const DramCounts& dram = counts.dram;
  const Count granules = dram.reads + dram.writes + dram.prefetches + dram.dma_reads + dram.dma_writes;
  CHECK(dram.reads <= counts.levels.back().misses);
  CHECK(dram.bytes == nontemporal_bytes + granule_bytes(machine) * granules);
}

struct Located {
  int core, level;
  CopyState copy;
};

inline void laws_of_one_line(const Machine& machine, const std::vector<Located>& copies) {
  const auto cores = [&](const Located& c) { return machine.caches[static_cast<std::size_t>(c.level)].shared_by; };
  const auto is_before = [&](const Located& inner, const Located& outer) {
    return inner.level <= outer.level && inner.core / cores(outer) == outer.core / cores(outer);
  };
  for (const Located& a : copies)
    for (const Located& b : copies) {
      if (is_before(a, b) || is_before(b, a)) continue;
      CHECK(a.copy.shared && b.copy.shared);         // nobody else has a line that one cache has exclusively
      CHECK(!(a.copy.modified && b.copy.modified));  // one modified copy
    }
  for (const Located& a : copies) CHECK(machine.coherence == Coherence::moesi || !(a.copy.modified && a.copy.shared));
}

inline void laws_of_copies(const Machine& machine, const NodeMemory& memory, const std::vector<Address>& lines) {
  for (const Address line : lines) {
    std::vector<Located> copies;
    for_each_cache(machine, [&](int core, int level) {
      const CopyState copy = memory.cached_copy_state(core, level, line);
      if (copy.present) copies.push_back({core, level, copy});
      const Cache& cache = machine.caches[static_cast<std::size_t>(level)];
      if (copy.present || cache.inclusion != Inclusion::inclusive) return;
      for (int inner = core; inner < std::min(core + cache.shared_by, machine.cores); ++inner)
        for (int inner_level = 0; inner_level < level; ++inner_level)
          CHECK(!memory.cached_copy_state(inner, inner_level, line).present);
    });
    laws_of_one_line(machine, copies);
  }
}

}  // namespace nearfield::sim

// The counters of a simulated node. Tests hold these laws: hits + misses = accesses of every cache; a cache's accesses
// are the misses of the one before it, and the stores that that one writes through.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace nearfield::sim {

using Count = std::uint64_t;

inline constexpr std::size_t most_cache_levels = 6;

// The counts of all caches of one level together.
struct LevelCounts {
  Count hits = 0;
  Count misses = 0;
  Count evictions = 0;           // valid lines (sub-blocks) that had to make room
  Count write_backs = 0;         // of these, and of flushes, the modified ones
  Count back_invalidations = 0;  // lost here because an inclusive cache further out evicted them
  Count snoops = 0;              // looked for here on behalf of another core or a device
  Count invalidations = 0;       // lost here to a store of another core, or to a device
  Count prefetches = 0;          // filled ahead of use
  Count injections = 0;          // lines that a device put here
  Count injected_unused = 0;     // of these, evicted or overwritten before anybody used them
  Count injected_victims = 0;    // lines that had to make room for them
  Count victims_missed = 0;      // of these, those that were missed again

  LevelCounts& operator+=(const LevelCounts& other) {
    for (auto field : {&LevelCounts::hits, &LevelCounts::misses, &LevelCounts::evictions, &LevelCounts::write_backs,
                       &LevelCounts::back_invalidations, &LevelCounts::snoops, &LevelCounts::invalidations,
                       &LevelCounts::prefetches, &LevelCounts::injections, &LevelCounts::injected_unused,
                       &LevelCounts::injected_victims, &LevelCounts::victims_missed})
      this->*field += other.*field;
    return *this;
  }
};

struct DramCounts {
  Count reads = 0;         // lines for a core's loads and stores
  Count writes = 0;        // lines that caches wrote back
  Count prefetches = 0;    // lines
  Count bypass_reads = 0;  // accesses past the caches
  Count bypass_writes = 0;
  Count dma_reads = 0;   // lines
  Count dma_writes = 0;  // lines, whole or in part
  Count bytes = 0;       // of all these

  DramCounts& operator+=(const DramCounts& other) {
    for (auto field : {&DramCounts::reads, &DramCounts::writes, &DramCounts::prefetches, &DramCounts::bypass_reads,
                       &DramCounts::bypass_writes, &DramCounts::dma_reads, &DramCounts::dma_writes, &DramCounts::bytes})
      this->*field += other.*field;
    return *this;
  }
};

struct TlbCounts {
  Count hits = 0;
  Count misses = 0;
};

struct Counts {
  std::vector<LevelCounts> levels;  // nearest first
  DramCounts dram;
  std::vector<TlbCounts> tlbs;
  Count page_faults = 0;
  Count transfers = 0;  // lines that came from another core's cache

  // Adds the counts of another node of the same machine.
  Counts& operator+=(const Counts& other) {
    levels.resize(other.levels.size());
    for (std::size_t l = 0; l < levels.size(); ++l) levels[l] += other.levels[l];
    dram += other.dram;
    tlbs.resize(other.tlbs.size());
    for (std::size_t t = 0; t < tlbs.size(); ++t) {
      tlbs[t].hits += other.tlbs[t].hits;
      tlbs[t].misses += other.tlbs[t].misses;
    }
    page_faults += other.page_faults;
    transfers += other.transfers;
    return *this;
  }
};

}  // namespace nearfield::sim

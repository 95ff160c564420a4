// The counters of a simulated node. The tests check these laws: for every cache, hits + misses = accesses, and its
// accesses are the misses of the next inner level and the stores that this inner level writes through.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/memory/access.hpp"

namespace nearfield::sim {

// Counters of one cache level, summed over all caches of that level.
struct LevelCounts {
  Count hits = 0;
  Count misses = 0;
  Count evictions = 0;           // valid lines (sub-blocks) that were replaced
  Count write_backs = 0;         // evicted or flushed lines that were modified
  Count back_invalidations = 0;  // lines invalidated because an inclusive outer level evicted them
  Count snoops = 0;              // lookups on behalf of another core or a device
  Count invalidations = 0;       // lines lost to a store of another core, or to a device
  Count prefetches = 0;          // lines filled by the prefetcher
  Count injections = 0;          // lines that a device wrote into the cache
  Count injected_unused = 0;     // injected lines that were evicted or overwritten before any use
  Count injected_victims = 0;    // lines that injected lines evicted
  Count victims_missed = 0;      // lines that injected lines evicted and that missed later
  Count device_hits = 0;         // granules that caches gave to a device, at the outermost level that had them

  bool operator==(const LevelCounts&) const = default;
  LevelCounts& operator+=(const LevelCounts& other) { return add(other, 1); }
  // Adds the other counters, multiplied by `times`; -1 subtracts them.
  LevelCounts& add(const LevelCounts& other, std::int64_t times) {
    for (auto field : {&LevelCounts::hits, &LevelCounts::misses, &LevelCounts::evictions, &LevelCounts::write_backs,
                       &LevelCounts::back_invalidations, &LevelCounts::snoops, &LevelCounts::invalidations,
                       &LevelCounts::prefetches, &LevelCounts::injections, &LevelCounts::injected_unused,
                       &LevelCounts::injected_victims, &LevelCounts::victims_missed, &LevelCounts::device_hits})
      this->*field += other.*field * static_cast<Count>(times);
    return *this;
  }
};

struct DramCounts {
  Count reads = 0;         // lines for a core's loads and stores
  Count writes = 0;        // lines that caches wrote back
  Count prefetches = 0;    // lines
  Count bypass_reads = 0;  // accesses that bypass the caches
  Count bypass_writes = 0;
  Count dma_reads = 0;   // lines
  Count dma_writes = 0;  // lines, whole or in part
  Count bytes = 0;       // bytes of all DRAM accesses

  bool operator==(const DramCounts&) const = default;
  DramCounts& add(const DramCounts& other, std::int64_t times) {
    for (auto field : {&DramCounts::reads, &DramCounts::writes, &DramCounts::prefetches, &DramCounts::bypass_reads,
                       &DramCounts::bypass_writes, &DramCounts::dma_reads, &DramCounts::dma_writes, &DramCounts::bytes})
      this->*field += other.*field * static_cast<Count>(times);
    return *this;
  }
};

struct TlbCounts {
  Count hits = 0;
  Count misses = 0;
  bool operator==(const TlbCounts&) const = default;
};

struct Counts {
  std::vector<LevelCounts> levels;  // L1 first
  DramCounts dram;
  std::vector<TlbCounts> tlbs;
  Count page_faults = 0;
  Count transfers = 0;  // lines supplied by another core's cache

  bool operator==(const Counts&) const = default;
  // Adds the counts of another node of the same machine.
  Counts& operator+=(const Counts& other) { return add(other, 1); }
  // Adds the other counters, multiplied by `times`; -1 subtracts them.
  Counts& add(const Counts& other, std::int64_t times) {
    levels.resize(std::max(levels.size(), other.levels.size()));
    for (std::size_t l = 0; l < other.levels.size(); ++l) levels[l].add(other.levels[l], times);
    dram.add(other.dram, times);
    tlbs.resize(std::max(tlbs.size(), other.tlbs.size()));
    for (std::size_t t = 0; t < other.tlbs.size(); ++t) {
      tlbs[t].hits += other.tlbs[t].hits * static_cast<Count>(times);
      tlbs[t].misses += other.tlbs[t].misses * static_cast<Count>(times);
    }
    page_faults += other.page_faults * static_cast<Count>(times);
    transfers += other.transfers * static_cast<Count>(times);
    return *this;
  }
};

}  // namespace nearfield::sim

// Sums of counts, over nodes.
#pragma once

#include "sim/memory/counts.hpp"
#include "sim/nic/nic.hpp"

namespace nearfield::sim {

inline void add(LevelCounts& sum, const LevelCounts& more) {
  sum.hits += more.hits;
  sum.misses += more.misses;
  sum.evictions += more.evictions;
  sum.write_backs += more.write_backs;
  sum.back_invalidations += more.back_invalidations;
  sum.snoops += more.snoops;
  sum.invalidations += more.invalidations;
  sum.prefetches += more.prefetches;
  sum.injections += more.injections;
  sum.injected_unused += more.injected_unused;
  sum.injected_victims += more.injected_victims;
  sum.victims_missed += more.victims_missed;
}

inline void add(DramCounts& sum, const DramCounts& more) {
  sum.reads += more.reads;
  sum.writes += more.writes;
  sum.prefetches += more.prefetches;
  sum.bypass_reads += more.bypass_reads;
  sum.bypass_writes += more.bypass_writes;
  sum.dma_reads += more.dma_reads;
  sum.dma_writes += more.dma_writes;
  sum.bytes += more.bytes;
}

inline void add(Counts& sum, const Counts& more) {
  sum.levels.resize(more.levels.size());
  for (std::size_t l = 0; l < more.levels.size(); ++l) add(sum.levels[l], more.levels[l]);
  add(sum.dram, more.dram);
  sum.tlbs.resize(more.tlbs.size());
  for (std::size_t t = 0; t < more.tlbs.size(); ++t) {
    sum.tlbs[t].hits += more.tlbs[t].hits;
    sum.tlbs[t].misses += more.tlbs[t].misses;
  }
  sum.page_faults += more.page_faults;
  sum.transfers += more.transfers;
}

inline void add(NicCounts& sum, const NicCounts& more) {
  sum.commands += more.commands;
  sum.events += more.events;
  for (std::size_t l = 0; l < lanes; ++l) sum.empty_polls[l] += more.empty_polls[l];
  sum.read_bytes += more.read_bytes;
  sum.written_bytes += more.written_bytes;
}

}  // namespace nearfield::sim

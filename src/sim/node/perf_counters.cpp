#include "sim/node/perf_counters.hpp"

#include "sim/memory/counts.hpp"

namespace nearfield::sim {

PerfCounters::PerfCounters(const Counts& counts) {
  for (std::size_t level = 0; level < counts.levels.size(); ++level) {
    hits[level] = counts.levels[level].hits;
    misses[level] = counts.levels[level].misses;
    prefetches += counts.levels[level].prefetches;
    snoops += counts.levels[level].snoops;
    invalidations += counts.levels[level].invalidations;
  }
  if (!counts.tlbs.empty()) tlb_misses = counts.tlbs.back().misses;
  prefetched_from_memory = counts.dram.prefetches;
  page_faults = counts.page_faults;
}

}  // namespace nearfield::sim

// A snapshot of one core's performance counters, which correspond to hardware counters. Counts are attributed
// to the actor: hits, misses and prefetches are those of the core's own loads and stores; snoops and invalidations are
// those that other cores and devices caused. Per-core counting is optional (Node::enable_per_core_counts), since it
// costs host time whenever another core acts.
#pragma once

#include <array>

#include "sim/memory/access.hpp"

namespace nearfield::sim {

struct Counts;  // counts.hpp

struct PerfCounters {
  std::array<Count, max_cache_levels> hits{}, misses{};  // by level, L1 first
  Count prefetches = 0;                                  // sum over all levels
  Count prefetched_from_memory = 0;                      // prefetches that memory supplied
  Count snoops = 0;                                      // sum over all levels
  Count invalidations = 0;
  Count tlb_misses = 0;  // last-level TLB misses: page walks
  Count page_faults = 0;

  PerfCounters() = default;
  explicit PerfCounters(const Counts& counts);

  PerfCounters& operator+=(const PerfCounters& other) {
    combine_each(other, [](Count& count, Count other_count) { count += other_count; });
    return *this;
  }
  PerfCounters& operator-=(const PerfCounters& other) {
    combine_each(other, [](Count& count, Count other_count) { count -= other_count; });
    return *this;
  }
  friend PerfCounters operator-(PerfCounters a, const PerfCounters& b) { return a -= b; }

 private:
  template <class Function>
  void combine_each(const PerfCounters& other, Function&& function) {
    for (std::size_t level = 0; level < max_cache_levels; ++level) {
      function(hits[level], other.hits[level]);
      function(misses[level], other.misses[level]);
    }
    function(prefetches, other.prefetches);
    function(prefetched_from_memory, other.prefetched_from_memory);
    function(snoops, other.snoops);
    function(invalidations, other.invalidations);
    function(tlb_misses, other.tlb_misses);
    function(page_faults, other.page_faults);
  }
};

}  // namespace nearfield::sim

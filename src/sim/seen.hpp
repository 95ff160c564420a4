// The memory accesses of one core of a node, in the few numbers that hardware counters have, too. Counts are by actor:
// misses are those of the core's own loads and stores; snoops and invalidations are what others, cores and devices,
// caused while it ran. Cores are only counted apart on request (Node::tell_cores_apart), since it costs time whenever
// another core goes on.
#pragma once

#include <array>

#include "sim/access.hpp"

namespace nearfield::sim {

struct Counts;  // counts.hpp

struct Seen {
  std::array<Count, max_cache_levels> hits{}, misses{};  // by level, nearest first
  Count prefetches = 0;                                  // of all levels together
  Count prefetched_from_memory = 0;                      // of these
  Count snoops = 0;                                      // of all levels together
  Count invalidations = 0;
  Count tlb_misses = 0;  // of the last TLB: walks of page tables
  Count page_faults = 0;

  Seen() = default;
  explicit Seen(const Counts& counts);

  Seen& operator+=(const Seen& other) {
    each(other, [](Count& mine, Count its) { mine += its; });
    return *this;
  }
  Seen& operator-=(const Seen& other) {
    each(other, [](Count& mine, Count its) { mine -= its; });
    return *this;
  }
  friend Seen operator-(Seen a, const Seen& b) { return a -= b; }

 private:
  template <class Function>
  void each(const Seen& other, Function&& function) {
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

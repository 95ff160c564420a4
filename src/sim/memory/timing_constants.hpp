// The times and limits of cores, caches and transfers that the timing model needs, derived from a machine once.
#pragma once

#include <array>
#include <cstdint>

#include "machine/machine.hpp"
#include "sim/engine/time_vector.hpp"
#include "sim/memory/access.hpp"

namespace nearfield::sim {

struct TimingConstants {
  struct Level {
    Ps latency = 0;
    Ps per_line = 0;  // time that a line occupies the port; 0: no time
    Ps per_byte = 0;
  };

  explicit TimingConstants(const Machine& machine);

  int num_caches;  // levels
  int cores_per_last_cache;
  std::uint64_t granule_bytes;  // of coherence and of memory transfers
  std::array<Level, max_cache_levels + 1> levels;
  int first_write_back_level = 0;  // the first level that writes back; 0 if L1 does
  Ps per_access;                   // issue cost of an access
  Count window;        // instructions that the core issues past a load whose data has not arrived; 0: any number
  Ps min_window_time;  // lower bound of the time that a window of instructions takes
  Ps shared_transfer;  // of a line from another core's cache inside the last-level cache
  Ps remote_transfer;  // of a line from another last-level cache
  // Extra times of a store that invalidates other caches' copies: if L1 holds the line, and if it does not.
  Ps upgrade, upgrade_miss;
  double nontemporal_ps_per_byte;
  bool has_prefetcher, has_own_prefetch_slots;
  bool overlaps_walks;    // the core continues while TLB misses are resolved
  bool limits_transfers;  // lines from other caches have slots of their own
};

}  // namespace nearfield::sim

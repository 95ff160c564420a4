// The types of requests of cores and devices to the memory of a node (memory.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace nearfield::sim {

// Physical; below 2^37 (128 GiB). If cores have local memories, addresses alternate between these every 8 GiB.
using Address = std::uint64_t;
inline constexpr int home_shift = 33;

using Count = std::uint64_t;
inline constexpr std::size_t max_cache_levels = 6;

enum class Access {
  load,
  store,
  chase,              // a load whose address depends on the load before it, and which the core waits for
  index,              // a load whose data is the address of later gathers
  gather,             // a load whose address depends on the last index load
  load_nontemporal,   // past the caches; a cached copy is written back and removed first
  store_nontemporal,  // a non-temporal store
};

// One access of a recorded trace.
struct Reference {
  Address address;
  std::uint32_t bytes;
  Access kind;
};

// The level of the memory hierarchy into which a NIC injects lines.
struct InjectionTarget {
  static constexpr int memory = -1;
  int level = memory;  // cache level, counted from 0; the line is written to memory, too, and clean in the cache
  int core = 0;        // whose cache of that level
  int ways = 0;        // restricts the line to the first `ways` ways of a set, as a way mask does; 0: any way

  bool operator==(const InjectionTarget&) const = default;
};

// The state of a line in one cache.
struct CopyState {
  bool present = false, modified = false, shared = false;
};

// What supplied a line.
struct LookupResult {
  int level = 0;             // the number of caches stands for memory
  bool transferred = false;  // another core's cache supplied it
  bool written = false;      // which wrote it to memory, too; set beyond the last cache only
  bool upgraded = false;     // a store took the line from other caches that had it, too
  bool first_use = false;    // of a line that was prefetched into L1
  int holder = 0;            // beyond the last cache: which last-level cache had it
};

}  // namespace nearfield::sim

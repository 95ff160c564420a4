// The types of requests of cores and devices to the memory of a node (memory.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace nearfield::sim {

// A physical address in a node, below 2^37 (128 GiB). If a node has several memories (NUMA), they alternate every 8 GiB
// of addresses.
using Address = std::uint64_t;
inline constexpr int home_memory_shift = 33;

using Count = std::uint64_t;
inline constexpr std::size_t max_cache_levels = 6;

enum class Access {
  load,
  store,
  chase,              // a load whose address depends on the previous load; the core waits for its data
  index,              // a load whose data is the address of later gathers
  gather,             // a load whose address depends on the last index load
  load_nontemporal,   // a load that bypasses the caches; a cached copy is first written back and invalidated
  store_nontemporal,  // a store that bypasses the caches in the same way
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
  int level = memory;  // cache level, counted from 0; the line is also written to memory, so the cached copy is clean
  int core = 0;        // the core whose cache of that level receives the line
  int ways = 0;        // if not 0, the line may only go to the first `ways` ways of a set

  bool operator==(const InjectionTarget&) const = default;
};

// The state of a line in one cache.
struct CopyState {
  bool present = false, modified = false, shared = false;
};

// The result of a cache lookup: which cache or memory supplied the line.
struct LookupResult {
  int level = 0;                     // the level that supplied the line; the number of cache levels stands for memory
  bool is_from_other_cache = false;  // another core's cache supplied the line
  bool was_written_back =
      false;  // the supplying cache also wrote the line back to memory; set only beyond the last-level cache
  bool has_invalidated_copies = false;    // a store invalidated copies of the line in other caches
  bool is_first_use_of_prefetch = false;  // the first use of a line that was prefetched into L1
  int holder = 0;  // the number of the last-level cache that held the line, if last-level caches were snooped
};

}  // namespace nearfield::sim

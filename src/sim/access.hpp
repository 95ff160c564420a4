// The words in which cores and devices ask the memory of a node for something (memory.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace nearfield::sim {

// Physical; below 2^37 (128 GiB). Where cores have memories of their own, these take turns every 8 GiB.
using Address = std::uint64_t;
inline constexpr int home_shift = 33;

using Count = std::uint64_t;
inline constexpr std::size_t most_cache_levels = 6;

enum class Access {
  load,
  store,
  chase,         // a load whose address came from the load before it, and which the core waits for
  index,         // a load whose data is the address of gathers after it
  gather,        // a load whose address came from the last index load
  load_bypass,   // past the caches; a line that is in one is written back and removed first
  store_bypass,  // a non-temporal store
};

// One access of a recorded trace.
struct Reference {
  Address address;
  std::uint32_t bytes;
  Access kind;
};

// The place in the memory hierarchy into which a NIC writes lines.
struct Placement {
  static constexpr int memory = -1;
  int level = memory;  // cache level, counted from 0; the line is written to memory, too, and clean there
  int core = 0;        // whose cache of that level
  int ways = 0;        // into the first so many ways of a set only, as a way mask does; 0: into any

  bool operator==(const Placement&) const = default;
};

// The place where a line was found.
struct Found {
  int level = 0;             // number of caches: memory
  bool transferred = false;  // it came from a cache of another core
  bool written = false;      // which wrote it to memory, too; told beyond the last cache
  int holder = 0;            // beyond the last cache: which of the last caches had it
};

}  // namespace nearfield::sim

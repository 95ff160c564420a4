// Paper S1 (papers/S1/README.md, claims S1.3 and S1.4): the cost of the first touch of memory (page faults), and of
// reading it again. Every repetition uses newly allocated memory, of which each rank touches and reads its own part.
#pragma once

#include "scenario/scenario.hpp"
#include "scenario/size_ladder.hpp"

namespace nearfield {

inline std::vector<std::int64_t> pages_sizes(const SizeChoice& choice) {
  if (!choice.sizes.empty()) return choice.sizes;
  if (choice.tier == "quick") return {64 << 10, 1 << 20, 4 << 20, 16 << 20};
  std::vector<std::int64_t> sizes{64 << 10, 256 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20};
  if (choice.tier == "full") sizes.push_back(64 << 20);
  return sizes;
}

inline const ScenarioInfo pages_info{
    "pages",
    "First touch and re-reading of private memory, shared windows and fields, base and huge pages: time and page "
    "faults",
    Ranks::all,
    {{"size_bytes", "each rank's part"},
     {"memory",
      "private, private-huge (madvise), window (MPI_Win_allocate_shared), window-huge (collapsed) or field "
      "(as the halo library's)"}},
    {{"first_touch", "ns", Combine::slowest, "writing fresh memory for the first time"},
     {"traverse", "ns", Combine::slowest, "reading it again"},
     {"first_touch_faults", "count", Combine::slowest, "page faults of the first touch"},
     {"traverse_faults", "count", Combine::slowest, "page faults of reading it again"},
     {"huge_bytes", "bytes", Combine::root, "mapped by huge pages"}},
};

}  // namespace nearfield

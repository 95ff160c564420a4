// Counts MPI races: outcomes that depend on timing, such as which message a receive from any source matches, and what a
// test returns. All configurations (each a policy at a memory speed) replay the matches and test results of the
// observed run. RaceStatistics counts in how many configurations another message would have matched, or a test would
// have returned something else.
#pragma once

#include <array>
#include <cstdint>

#include "sim/engine/config_clock.hpp"

namespace nearfield::sim {

// One bit per configuration: variant * speeds + speed.
using ConfigMask = std::uint32_t;
static_assert(max_variants * num_memory_speeds == 32);

// Returns the configurations in which the time `one` is before the time `other`.
inline ConfigMask configs_before(const ConfigClock& one, const ConfigClock& other) {
  ConfigMask found = 0;
  for (int v = 0; v < one.variants(); ++v)
    for (int speed = 0; speed < num_memory_speeds; ++speed)
      if (one[v][speed] < other[v][speed]) found |= ConfigMask{1} << (v * num_memory_speeds + speed);
  return found;
}

// Returns the completion time of an operation that begins at `begin` and, in the first configuration, completes at
// `end`. The simulated completion times of other configurations are not usable, because links and NICs serve messages
// in the first configuration's order. So the first configuration's duration is used for all.
inline ConfigClock extrapolate_completion(const ConfigClock& begin, const ConfigClock& end) {
  return begin + (end.first() - begin.first());
}

struct RaceStatistics {
  std::uint64_t outcomes = 0;
  std::array<std::array<std::uint64_t, num_memory_speeds>, max_variants> divergent{};
  bool decided = false;  // the first configuration decides the outcomes (count_divergence_on_first)

  // Counts an outcome as divergent in the configurations `more`, except in `so_far`, in which it has already been
  // counted.
  void add_divergence(ConfigMask& so_far, ConfigMask more) {
    if (decided && more & 1) return;  // extrapolated times are inexact in the first configuration, and so in all others
    add_to_divergent(more & ~so_far, 1);
    so_far |= more;
  }
  // Count an outcome that the first configuration decides differently from the recorded run, or take it back.
  void count_divergence_on_first() { ++divergent[0][0]; }
  void retract_divergence_on_first() { --divergent[0][0]; }
  // Removes an outcome that add_divergence() counted in these configurations.
  void retract_outcome(ConfigMask configs) {
    --outcomes;
    add_to_divergent(configs, std::uint64_t{0} - 1);
  }

 private:
  void add_to_divergent(ConfigMask on, std::uint64_t by) {
    for (; on; on &= on - 1) {
      const auto clock = static_cast<unsigned>(__builtin_ctz(on));
      divergent[clock / num_memory_speeds][clock % num_memory_speeds] += by;
    }
  }
};

}  // namespace nearfield::sim

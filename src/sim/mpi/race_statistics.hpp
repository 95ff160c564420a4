// Counts MPI races: outcomes that depend on timing, such as the message that a receive from any source matches, or the
// result of a test. All configurations (each a policy at a memory speed) replay the matches and test results of the
// observed run. RaceStatistics counts, per configuration, the outcomes that would have been different: another message
// would have matched, or a test would have had another result.
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
  ConfigMask configs = 0;
  for (int v = 0; v < one.num_variants(); ++v)
    for (int speed = 0; speed < num_memory_speeds; ++speed)
      if (one[v][speed] < other[v][speed]) configs |= ConfigMask{1} << (v * num_memory_speeds + speed);
  return configs;
}

// Returns the completion time, in each configuration, of an operation that begins at `begin` and, in the first
// configuration, completes at `end`. All configurations get the duration of the first one: their own simulated
// completion times are not usable, because links and NICs serve messages in the first configuration's order.
inline ConfigClock extrapolate_completion(const ConfigClock& begin, const ConfigClock& end) {
  return begin + (end.first() - begin.first());
}

struct RaceStatistics {
  std::uint64_t outcomes = 0;
  std::array<std::array<std::uint64_t, num_memory_speeds>, max_variants> num_divergent_outcomes{};
  bool is_decided_by_first_config = false;  // the first configuration decides the outcomes (count_divergence_on_first)

  // Counts an outcome as divergent in the configurations `added_configs`, except in `counted_configs`, in which it has
  // already been counted.
  void add_divergence(ConfigMask& counted_configs, ConfigMask added_configs) {
    if (is_decided_by_first_config && added_configs & 1)
      return;  // extrapolated times are inexact in the first configuration, and so in all others
    add_to_divergent(added_configs & ~counted_configs, 1);
    counted_configs |= added_configs;
  }
  // Add or remove an outcome that the first configuration decides differently from the recorded run.
  void count_divergence_on_first() { ++num_divergent_outcomes[0][0]; }
  void retract_divergence_on_first() { --num_divergent_outcomes[0][0]; }
  // Removes an outcome that add_divergence() counted in these configurations.
  void retract_outcome(ConfigMask configs) {
    --outcomes;
    add_to_divergent(configs, std::uint64_t{0} - 1);
  }

 private:
  void add_to_divergent(ConfigMask configs, std::uint64_t increment) {
    for (; configs; configs &= configs - 1) {
      const auto clock = static_cast<unsigned>(__builtin_ctz(configs));
      num_divergent_outcomes[clock / num_memory_speeds][clock % num_memory_speeds] += increment;
    }
  }
};

}  // namespace nearfield::sim

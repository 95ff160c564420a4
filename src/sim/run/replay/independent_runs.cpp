#include "sim/run/replay/independent_runs.hpp"

#include <algorithm>

namespace nearfield::sim::replay {
namespace {

struct ConfigRange {
  int variant, speed, until;  // the configurations that a run computes: speeds from `speed` to before `until`
};

void copy_configs(ConfigClock& all, const ConfigClock& one, const ConfigRange& at) {
  for (int speed = at.speed; speed < at.until; ++speed) all[at.variant][speed] = one[0][0];
}

void copy_configs(VariantOutcome& all, const VariantOutcome& one, const ConfigRange& at) {
  for (auto speed = static_cast<std::size_t>(at.speed); speed < static_cast<std::size_t>(at.until); ++speed) {
    all.memory_at[speed] = one.memory_at[0];
    all.nic.empty_polls[speed] = one.nic.empty_polls[0];
  }
}

// All runs replay the same events, so their call lists match one to one.
void copy_configs(RankReplayResult& all, const RankReplayResult& one, const ConfigRange& at) {
  copy_configs(all.computing.time, one.computing.time, at);
  for (std::size_t i = 0; i < all.calls.size(); ++i) copy_configs(all.calls[i].spent.time, one.calls[i].spent.time, at);
  all.timing_sensitivity.races.outcomes =
      std::max(all.timing_sensitivity.races.outcomes, one.timing_sensitivity.races.outcomes);
  for (int speed = at.speed; speed < at.until; ++speed)
    all.timing_sensitivity.races.divergent[static_cast<std::size_t>(at.variant)][static_cast<std::size_t>(speed)] =
        one.timing_sensitivity.races.divergent[0][0];
}

void clear_for_variants(ReplayResult& all, int variants) {
  const ConfigClock none(variants);
  for (auto& rank : all.cluster.ranks) rank.finished = none;
  for (auto& rank : all.ranks) {
    rank.computing.time = none;
    for (auto& call : rank.calls) call.spent.time = none;
    rank.timing_sensitivity.races.divergent = {};
  }
  all.cluster.variants.clear();
}

}  // namespace

ReplayResult run_independently(const std::vector<std::string>& policies, const std::vector<double>& memory_slowdown,
                               const RunOne& run_one) {
  ReplayResult all;
  const int last = static_cast<int>(memory_slowdown.size()) - 1;
  for (int variant = 0; variant < static_cast<int>(policies.size()); ++variant)
    for (int speed = 0; speed <= last; ++speed) {
      const ReplayResult one =
          run_one(policies[static_cast<std::size_t>(variant)], memory_slowdown[static_cast<std::size_t>(speed)]);
      if (variant == 0 && speed == 0) {
        all = one;
        clear_for_variants(all, static_cast<int>(policies.size()));
      }
      const ConfigRange at{variant, speed, speed == last ? num_memory_speeds : speed + 1};
      if (speed == 0) all.cluster.variants.push_back(one.cluster.variants[0]);
      copy_configs(all.cluster.variants.back(), one.cluster.variants[0], at);
      for (std::size_t rank = 0; rank < all.ranks.size(); ++rank) {
        copy_configs(all.cluster.ranks[rank].finished, one.cluster.ranks[rank].finished, at);
        copy_configs(all.ranks[rank], one.ranks[rank], at);
      }
    }
  return all;
}

}  // namespace nearfield::sim::replay

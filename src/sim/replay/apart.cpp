#include "sim/replay/apart.hpp"

#include <algorithm>

namespace nearfield::sim::replay {
namespace {

struct Clocks {
  int variant, speed, until;  // the clocks that a run gives
};

void put(Clock& all, const Clock& one, const Clocks& at) {
  for (int speed = at.speed; speed < at.until; ++speed) all[at.variant][speed] = one[0][0];
}

void put(VariantOutcome& all, const VariantOutcome& one, const Clocks& at) {
  for (auto speed = static_cast<std::size_t>(at.speed); speed < static_cast<std::size_t>(at.until); ++speed) {
    all.memory_at[speed] = one.memory_at[0];
    all.nic.empty_polls[speed] = one.nic.empty_polls[0];
  }
}

// The course is the same, so the calls are, in their order.
void put(ReplayedOutcome& all, const ReplayedOutcome& one, const Clocks& at) {
  put(all.computing.time, one.computing.time, at);
  for (std::size_t i = 0; i < all.calls.size(); ++i) put(all.calls[i].spent.time, one.calls[i].spent.time, at);
  all.dependence.tally.outcomes = std::max(all.dependence.tally.outcomes, one.dependence.tally.outcomes);
  for (int speed = at.speed; speed < at.until; ++speed)
    all.dependence.tally.otherwise[static_cast<std::size_t>(at.variant)][static_cast<std::size_t>(speed)] =
        one.dependence.tally.otherwise[0][0];
}

void widen(Replayed& all, int variants) {
  const Clock none(variants);
  for (auto& rank : all.cluster.ranks) rank.finished = none;
  for (auto& rank : all.ranks) {
    rank.computing.time = none;
    for (auto& call : rank.calls) call.spent.time = none;
    rank.dependence.tally.otherwise = {};
  }
  all.cluster.variants.clear();
}

}  // namespace

Replayed run_apart(const std::vector<std::string>& policies, const std::vector<double>& memory_slowdown,
                   const Once& once) {
  Replayed all;
  const int last = static_cast<int>(memory_slowdown.size()) - 1;
  for (int variant = 0; variant < static_cast<int>(policies.size()); ++variant)
    for (int speed = 0; speed <= last; ++speed) {
      const Replayed one =
          once(policies[static_cast<std::size_t>(variant)], memory_slowdown[static_cast<std::size_t>(speed)]);
      if (variant == 0 && speed == 0) {
        all = one;
        widen(all, static_cast<int>(policies.size()));
      }
      const Clocks at{variant, speed, speed == last ? speeds : speed + 1};
      if (speed == 0) all.cluster.variants.push_back(one.cluster.variants[0]);
      put(all.cluster.variants.back(), one.cluster.variants[0], at);
      for (std::size_t rank = 0; rank < all.ranks.size(); ++rank) {
        put(all.cluster.ranks[rank].finished, one.cluster.ranks[rank].finished, at);
        put(all.ranks[rank], one.ranks[rank], at);
      }
    }
  return all;
}

}  // namespace nearfield::sim::replay

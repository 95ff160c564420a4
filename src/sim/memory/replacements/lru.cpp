// Exact least recently used: every way has an age; age 0 is the most recently used. An invalidated way becomes the
// oldest, so that the oldest way is empty whenever any way is.
#include "sim/memory/replacement.hpp"

namespace nearfield::sim {
namespace {

int num_way_groups(int ways) { return (ways + ways_per_group - 1) / ways_per_group; }
std::uint8_t& age_of(WayGroup* set, int way) { return set[way / ways_per_group].age[way % ways_per_group]; }

class LruReplacement final : public Replacement {
 public:
  void prepare_set(WayGroup* set, int ways) override {
    for (int way = 0; way < num_way_groups(ways) * ways_per_group; ++way)
      age_of(set, way) = way < ways ? static_cast<std::uint8_t>(ways - 1 - way) : no_way;
  }

  void touch(WayGroup* set, int ways, int way) override {
    const auto age = age_of(set, way);
    for (int b = 0; b < num_way_groups(ways); ++b) age_younger_ways(set[b], age);
    age_of(set, way) = 0;
  }

  void invalidate(WayGroup* set, int ways, int way) override {
    const auto age = age_of(set, way);
    for (int b = 0; b < num_way_groups(ways); ++b) rejuvenate_older_ways(set[b], age);
    age_of(set, way) = static_cast<std::uint8_t>(ways - 1);
  }

  int choose_victim(WayGroup* set, int ways) override {
    for (int b = 0;; ++b)
      if (const auto found = ways_of_age(set[b], static_cast<std::uint8_t>(ways - 1)))
        return b * ways_per_group + __builtin_ctz(found);
  }

  int choose_victim_among_first(WayGroup* set, int, int limit) override {
    int oldest = 0;
    for (int way = 1; way < limit; ++way)
      if (age_of(set, way) > age_of(set, oldest)) oldest = way;
    return oldest;
  }
};

}  // namespace

const ReplacementSpec lru_replacement{"lru", "least recently used", false, []() -> std::unique_ptr<Replacement> {
                                        return std::make_unique<LruReplacement>();
                                      }};

}  // namespace nearfield::sim

// Least recently used, exactly: every way has an age, 0 is the youngest. An emptied way becomes the oldest, so that the
// oldest one is empty whenever one is.
#include "sim/memory/replacement.hpp"

namespace nearfield::sim {
namespace {

int blocks_of(int ways) { return (ways + lanes_per_block - 1) / lanes_per_block; }
std::uint8_t& age_of(Block* set, int way) { return set[way / lanes_per_block].age[way % lanes_per_block]; }

class Lru final : public Replacement {
 public:
  void prepare(Block* set, int ways) override {
    for (int lane = 0; lane < blocks_of(ways) * lanes_per_block; ++lane)
      age_of(set, lane) = lane < ways ? static_cast<std::uint8_t>(ways - 1 - lane) : no_way;
  }

  void touch(Block* set, int ways, int way) override {
    const auto age = age_of(set, way);
    for (int b = 0; b < blocks_of(ways); ++b) grow_older_than(set[b], age);
    age_of(set, way) = 0;
  }

  void emptied(Block* set, int ways, int way) override {
    const auto age = age_of(set, way);
    for (int b = 0; b < blocks_of(ways); ++b) grow_younger_than(set[b], age);
    age_of(set, way) = static_cast<std::uint8_t>(ways - 1);
  }

  int victim(Block* set, int ways) override {
    for (int b = 0;; ++b)
      if (const auto found = lanes_of_age(set[b], static_cast<std::uint8_t>(ways - 1)))
        return b * lanes_per_block + __builtin_ctz(found);
  }

  int victim_among(Block* set, int, int limit) override {
    int oldest = 0;
    for (int way = 1; way < limit; ++way)
      if (age_of(set, way) > age_of(set, oldest)) oldest = way;
    return oldest;
  }
};

}  // namespace

const ReplacementSpec lru_replacement{"lru", "least recently used", false,
                                      []() -> std::unique_ptr<Replacement> { return std::make_unique<Lru>(); }};

}  // namespace nearfield::sim

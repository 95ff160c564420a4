// Random replacement by a xorshift generator with a fixed seed, so that the same trace always evicts the same lines.
#include "sim/memory/replacement.hpp"

namespace nearfield::sim {
namespace {

class RandomReplacement final : public Replacement {
 public:
  void prepare_set(WayGroup*, int) override {}
  void touch(WayGroup*, int, int) override {}
  void invalidate(WayGroup*, int, int) override {}
  int choose_victim(WayGroup*, int ways) override {
    return static_cast<int>(next_random() % static_cast<unsigned>(ways));
  }
  int choose_victim_among_first(WayGroup*, int, int limit) override {
    return static_cast<int>(next_random() % static_cast<unsigned>(limit));
  }
  bool keeps_state_in_sets() const override { return false; }

 private:
  std::uint32_t next_random() {
    random_state_ ^= random_state_ << 13;
    random_state_ ^= random_state_ >> 17;
    return random_state_ ^= random_state_ << 5;
  }
  std::uint32_t random_state_ = 2463534242;
};

}  // namespace

extern const ReplacementSpec random_replacement;
const ReplacementSpec random_replacement{
    "random", "any line, by a generator with a fixed seed", false,
    []() -> std::unique_ptr<Replacement> { return std::make_unique<RandomReplacement>(); }};

}  // namespace nearfield::sim

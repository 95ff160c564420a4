// Tree pseudo-LRU: a binary tree over the ways with one bit per node. An access makes the bits on the path to its way
// point away from that way; the victim is the way to which the bits lead. The tree is stored in the first bytes of the
// set's ages; node 1 is its root.
#include "sim/memory/replacement.hpp"

namespace nearfield::sim {
namespace {

class TreePlru final : public Replacement {
 public:
  void prepare_set(WayGroup* set, int ways) override {
    for (int b = 0; b * ways_per_group < ways; ++b) std::memset(set[b].age, 0, sizeof set[b].age);
  }

  void touch(WayGroup* set, int ways, int way) override {
    int node = 1;
    for (int half_ways = ways / 2; half_ways > 0; half_ways /= 2) {
      const bool right = (way & half_ways) != 0;
      set_bit_of_node(set, node, !right);
      node = 2 * node + right;
    }
  }

  void invalidate(WayGroup*, int, int) override {}

  int choose_victim(WayGroup* set, int ways) override {
    int node = 1;
    while (node < ways) node = 2 * node + bit_of_node(set, node);
    return node - ways;
  }

  // Descends to the smallest subtree that contains the first `limit` ways, then follows the bits. If these lead to
  // another way, which can happen if `limit` is not a power of two, returns the last allowed way.
  int choose_victim_among_first(WayGroup* set, int ways, int limit) override {
    int node = 1;
    for (int half_ways = ways / 2; half_ways >= limit && half_ways > 0; half_ways /= 2) node = 2 * node;
    while (node < ways) node = 2 * node + bit_of_node(set, node);
    const int way = node - ways;
    return way < limit ? way : limit - 1;
  }

 private:
  static std::uint8_t& byte_of_node(WayGroup* set, int node) {
    const int byte_index = node / 8;
    return set[byte_index / ways_per_group].age[byte_index % ways_per_group];
  }
  static bool bit_of_node(WayGroup* set, int node) { return (byte_of_node(set, node) >> (node % 8) & 1) != 0; }
  static void set_bit_of_node(WayGroup* set, int node, bool right) {
    auto& b = byte_of_node(set, node);
    b = static_cast<std::uint8_t>(right ? b | 1U << (node % 8) : b & ~(1U << (node % 8)));
  }
};

}  // namespace

extern const ReplacementSpec tree_plru_replacement;
const ReplacementSpec tree_plru_replacement{
    "tree-plru", "a tree of bits that points away from what was used", true,
    []() -> std::unique_ptr<Replacement> { return std::make_unique<TreePlru>(); }};

}  // namespace nearfield::sim

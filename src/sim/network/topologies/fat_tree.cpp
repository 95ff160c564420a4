// A fat tree: switches in levels, with full bisection bandwidth: a switch has as many uplinks as there are nodes below
// it. Up-down routing: up to the first common switch, on the links that the destination's number selects, and down
// again. On the way down every destination has links of its own; on the way up messages to one destination share links.
// A switch here stands for all switches of a real tree that reach the same nodes.
#include "machine/machine.hpp"
#include "sim/network/topology.hpp"

namespace nearfield::sim {
namespace {

class FatTree final : public Topology {
 public:
  FatTree(const nearfield::Network& network, int) : Topology(network.shape.front()) {
    for (const int number : network.shape) {
      num_nodes_ *= number;
      nodes_below_.push_back(num_nodes_);
    }
    int first = 0;
    for (const int below : nodes_below_) {
      first_switch_.push_back(first);
      first += num_nodes_ / below;
    }
  }

  int max_nodes() const override { return num_nodes_; }
  // Between two levels there are one uplink and one downlink per node.
  int num_links() const override { return (num_levels() - 1) * 2 * num_nodes_; }
  Link link(int number) const override {
    const int level = number / (2 * num_nodes_);
    const bool up = number % (2 * num_nodes_) < num_nodes_;
    const int index = number % num_nodes_;
    const int lower = switch_above(level, index), upper = switch_above(level + 1, index);
    return up ? Link{lower, upper} : Link{upper, lower};
  }
  int num_hops(int from, int to) const override { return 2 * lowest_common_level(from, to); }
  void route(int from, int to, std::vector<int>& links) const override {
    links.clear();
    const int top = lowest_common_level(from, to);
    for (int level = 0; level < top; ++level) {
      const int width = nodes_below(level);
      links.push_back(level * 2 * num_nodes_ + from / width * width + to % width);
    }
    for (int level = top - 1; level >= 0; --level) links.push_back(level * 2 * num_nodes_ + num_nodes_ + to);
  }

 private:
  int num_levels() const { return static_cast<int>(nodes_below_.size()); }
  int nodes_below(int level) const { return nodes_below_[static_cast<std::size_t>(level)]; }
  int switch_above(int level, int node) const {
    return first_switch_[static_cast<std::size_t>(level)] + node / nodes_below(level);
  }
  int lowest_common_level(int a, int b) const {
    int level = 0;
    while (a / nodes_below(level) != b / nodes_below(level)) ++level;
    return level;
  }

  int num_nodes_ = 1;
  std::vector<int> nodes_below_;   // nodes below a switch, per level
  std::vector<int> first_switch_;  // number of the first switch, per level
};

}  // namespace

extern const TopologySpec fat_tree_topology;
const TopologySpec fat_tree_topology{"fat-tree",
                                     "levels of switches, none narrower than another",
                                     "children per switch, from the nodes up",
                                     make_implementation<Topology, FatTree>,
                                     1,
                                     8};

}  // namespace nearfield::sim

// Groups of routers; in a group every router has a link to every other one, and of every two groups one pair of routers
// is linked. Minimal: to the router that has the link, across, and on to the destination's router. Left out: several
// links between two groups, and ways through a third group.
#include "sim/network/topology.hpp"

namespace nearfield::sim {

extern const TopologySpec dragonfly_topology;

namespace {

class Dragonfly final : public Topology {
 public:
  Dragonfly(int routers, int nodes_per_router, int groups)
      : routers_(routers), per_router_(nodes_per_router), groups_(groups) {}

  int nodes() const override { return routers_ * per_router_ * groups_; }
  int router_of(int node) const override { return node / per_router_; }
  // First those inside groups, by group and pair, then those between groups, by pair.
  int links() const override { return groups_ * routers_ * routers_ + groups_ * groups_; }
  Link link(int number) const override {
    const int inside = groups_ * routers_ * routers_;
    if (number >= inside) {
      const int a = (number - inside) / groups_, b = (number - inside) % groups_;
      return {gate(a, b), gate(b, a)};
    }
    const int group = number / (routers_ * routers_), pair = number % (routers_ * routers_);
    return {group * routers_ + pair / routers_, group * routers_ + pair % routers_};
  }
  int hops(int from, int to) const override {
    const int a = router_of(from), b = router_of(to);
    const int from_group = a / routers_, to_group = b / routers_;
    if (from_group == to_group) return a == b ? 0 : 1;
    return 1 + (a != gate(from_group, to_group)) + (b != gate(to_group, from_group));
  }
  void route(int from, int to, std::vector<int>& links) const override {
    links.clear();
    const int a = router_of(from), b = router_of(to);
    const int from_group = a / routers_, to_group = b / routers_;
    if (from_group == to_group) return step(a, b, links);
    step(a, gate(from_group, to_group), links);
    links.push_back(groups_ * routers_ * routers_ + from_group * groups_ + to_group);
    step(gate(to_group, from_group), b, links);
  }

 private:
  // Returns the router of group `a` with the link to group `b`: spread evenly, by distance round the groups.
  int gate(int a, int b) const { return a * routers_ + (b - a - 1 + groups_) % groups_ % routers_; }
  // Adds the link between two routers of a group.
  void step(int a, int b, std::vector<int>& links) const {
    if (a != b) links.push_back((a / routers_ * routers_ + a % routers_) * routers_ + b % routers_);
  }

  int routers_, per_router_, groups_;
};

std::unique_ptr<Topology> make(const nearfield::Network& network, int nodes) {
  check_shape(dragonfly_topology, network, 3, 3);
  const auto& shape = network.shape;
  auto dragonfly = std::make_unique<Dragonfly>(shape[0], shape[1], shape[2]);
  check_room(dragonfly_topology, network, nodes, dragonfly->nodes(), raised_shape(shape, nodes, 1));
  return dragonfly;
}

}  // namespace

const TopologySpec dragonfly_topology{"dragonfly", "groups of fully linked routers, one link between any two groups",
                                      "routers per group, nodes per router, groups", make};

}  // namespace nearfield::sim

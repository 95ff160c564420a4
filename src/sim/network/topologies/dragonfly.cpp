// A dragonfly: within a group, every router has a link to every other router; of every two groups, one pair of routers
// is linked. Minimal routing: to the router with the link to the other group, across that link, and on to the
// destination's router. Left out: several links between two groups, and routes through a third group.
#include "machine/machine.hpp"
#include "sim/network/topology.hpp"

namespace nearfield::sim {
namespace {

class Dragonfly final : public Topology {
 public:
  Dragonfly(const nearfield::Network& network, int)
      : Topology(network.shape[1]), routers_(network.shape[0]), groups_(network.shape[2]) {}

  int max_nodes() const override { return routers_ * per_router_ * groups_; }
  // Links inside groups are numbered first, by group and pair, then those between groups, by pair.
  int num_links() const override { return groups_ * routers_ * routers_ + groups_ * groups_; }
  Link link(int number) const override {
    const int inside = groups_ * routers_ * routers_;
    if (number >= inside) {
      const int a = (number - inside) / groups_, b = (number - inside) % groups_;
      return {gateway_router(a, b), gateway_router(b, a)};
    }
    const int group = number / (routers_ * routers_), pair = number % (routers_ * routers_);
    return {group * routers_ + pair / routers_, group * routers_ + pair % routers_};
  }
  int hops(int from, int to) const override {
    const int a = router_of(from), b = router_of(to);
    const int from_group = a / routers_, to_group = b / routers_;
    if (from_group == to_group) return a == b ? 0 : 1;
    return 1 + (a != gateway_router(from_group, to_group)) + (b != gateway_router(to_group, from_group));
  }
  void route(int from, int to, std::vector<int>& links) const override {
    links.clear();
    const int a = router_of(from), b = router_of(to);
    const int from_group = a / routers_, to_group = b / routers_;
    if (from_group == to_group) return append_link_in_group(a, b, links);
    append_link_in_group(a, gateway_router(from_group, to_group), links);
    links.push_back(groups_ * routers_ * routers_ + from_group * groups_ + to_group);
    append_link_in_group(gateway_router(to_group, from_group), b, links);
  }

 private:
  // Returns the router of group `a` that has the link to group `b`. Links are spread evenly over the routers of a
  // group, by the distance of the groups.
  int gateway_router(int a, int b) const { return a * routers_ + (b - a - 1 + groups_) % groups_ % routers_; }
  // Appends the link between two routers of one group, if they differ.
  void append_link_in_group(int a, int b, std::vector<int>& links) const {
    if (a != b) links.push_back((a / routers_ * routers_ + a % routers_) * routers_ + b % routers_);
  }

  int routers_, groups_;
};

}  // namespace

extern const TopologySpec dragonfly_topology;
const TopologySpec dragonfly_topology{"dragonfly",
                                      "groups of fully linked routers, one link between any two groups",
                                      "routers per group, nodes per router, groups",
                                      make_variant<Topology, Dragonfly>,
                                      3,
                                      3};

}  // namespace nearfield::sim

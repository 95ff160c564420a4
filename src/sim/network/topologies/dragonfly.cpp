// A dragonfly: within a group, every router has a link to every other router; any two groups are connected by one link
// between two of their routers. Minimal routing: to the router with the link to the other group, across that link, and
// on to the destination's router. Not modeled: several links between two groups, and routes through a third group.
#include "machine/machine.hpp"
#include "sim/network/topology.hpp"

namespace nearfield::sim {
namespace {

class DragonflyTopology final : public Topology {
 public:
  DragonflyTopology(const nearfield::Network& network, int)
      : Topology(network.shape[1]), routers_per_group_(network.shape[0]), num_groups_(network.shape[2]) {}

  int max_nodes() const override { return routers_per_group_ * nodes_per_router_ * num_groups_; }
  // Links inside groups are numbered first, by group and pair, then those between groups, by pair.
  int num_links() const override {
    return num_groups_ * routers_per_group_ * routers_per_group_ + num_groups_ * num_groups_;
  }
  Link link(int number) const override {
    const int num_links_in_groups = num_groups_ * routers_per_group_ * routers_per_group_;
    if (number >= num_links_in_groups) {
      const int a = (number - num_links_in_groups) / num_groups_, b = (number - num_links_in_groups) % num_groups_;
      return {gateway_router(a, b), gateway_router(b, a)};
    }
    const int group = number / (routers_per_group_ * routers_per_group_),
              pair = number % (routers_per_group_ * routers_per_group_);
    return {group * routers_per_group_ + pair / routers_per_group_,
            group * routers_per_group_ + pair % routers_per_group_};
  }
  int num_hops(int from, int to) const override {
    const int a = router_of(from), b = router_of(to);
    const int from_group = a / routers_per_group_, to_group = b / routers_per_group_;
    if (from_group == to_group) return a == b ? 0 : 1;
    return 1 + (a != gateway_router(from_group, to_group)) + (b != gateway_router(to_group, from_group));
  }
  void route(int from, int to, std::vector<int>& links) const override {
    links.clear();
    const int a = router_of(from), b = router_of(to);
    const int from_group = a / routers_per_group_, to_group = b / routers_per_group_;
    if (from_group == to_group) return append_link_in_group(a, b, links);
    append_link_in_group(a, gateway_router(from_group, to_group), links);
    links.push_back(num_groups_ * routers_per_group_ * routers_per_group_ + from_group * num_groups_ + to_group);
    append_link_in_group(gateway_router(to_group, from_group), b, links);
  }

 private:
  // Returns the router of group `a` that has the link to group `b`. Links are spread evenly over the routers of a
  // group, by the distance of the groups.
  int gateway_router(int a, int b) const {
    return a * routers_per_group_ + (b - a - 1 + num_groups_) % num_groups_ % routers_per_group_;
  }
  // Appends the link between two routers of one group, if they differ.
  void append_link_in_group(int a, int b, std::vector<int>& links) const {
    if (a != b)
      links.push_back((a / routers_per_group_ * routers_per_group_ + a % routers_per_group_) * routers_per_group_ +
                      b % routers_per_group_);
  }

  int routers_per_group_, num_groups_;
};

}  // namespace

extern const TopologySpec dragonfly_topology;
const TopologySpec dragonfly_topology{"dragonfly",
                                      "groups of fully linked routers, one link between any two groups",
                                      "routers per group, nodes per router, groups",
                                      make_implementation<Topology, DragonflyTopology>,
                                      3,
                                      3};

}  // namespace nearfield::sim

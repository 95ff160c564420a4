// A full mesh: every router has a link to every other one, as in the fully connected Red Storm of paper S4
// (papers/S4/README.md). Messages contend for NICs and for the link between a pair of routers. The mesh has as many
// routers as the nodes need.
#include "machine/machine.hpp"
#include "sim/network/topology.hpp"

namespace nearfield::sim {
namespace {

class FullyConnectedTopology final : public Topology {
 public:
  FullyConnectedTopology(int nodes, int nodes_per_router)
      : Topology(nodes_per_router),
        num_nodes_(nodes),
        num_routers_((nodes + nodes_per_router - 1) / nodes_per_router) {}

  int max_nodes() const override { return num_nodes_; }
  int num_links() const override { return num_routers_ * num_routers_; }
  Link link(int number) const override { return {number / num_routers_, number % num_routers_}; }
  int num_hops(int from, int to) const override { return router_of(from) == router_of(to) ? 0 : 1; }
  void route(int from, int to, std::vector<int>& links) const override {
    links.clear();
    if (num_hops(from, to) > 0) links.push_back(router_of(from) * num_routers_ + router_of(to));
  }

 private:
  int num_nodes_, num_routers_;
};

std::unique_ptr<Topology> make_full(const nearfield::Network& network, int nodes) {
  const int max_nodes = 30'000 * network.nodes_per_router;  // links are numbered by an int
  if (nodes > max_nodes) check_capacity(network, nodes, max_nodes, {});
  return std::make_unique<FullyConnectedTopology>(nodes, network.nodes_per_router);
}

}  // namespace

extern const TopologySpec full_topology;
const TopologySpec full_topology{
    "full", "every router has a link to every other one", "nothing (leave it out)", make_full, 0, 0};

}  // namespace nearfield::sim

// A full mesh: every router has a link to every other one (S4: a fully connected Red Storm). Messages contend for NICs
// and for the link between a pair of routers. Its size follows the number of nodes.
#include "machine/machine.hpp"
#include "sim/network/topology.hpp"

namespace nearfield::sim {
namespace {

class Full final : public Topology {
 public:
  Full(int nodes, int nodes_per_router)
      : Topology(nodes_per_router), nodes_(nodes), routers_((nodes + nodes_per_router - 1) / nodes_per_router) {}

  int max_nodes() const override { return nodes_; }
  int num_links() const override { return routers_ * routers_; }
  Link link(int number) const override { return {number / routers_, number % routers_}; }
  int hops(int from, int to) const override { return router_of(from) == router_of(to) ? 0 : 1; }
  void route(int from, int to, std::vector<int>& links) const override {
    links.clear();
    if (hops(from, to) > 0) links.push_back(router_of(from) * routers_ + router_of(to));
  }

 private:
  int nodes_, routers_;
};

std::unique_ptr<Topology> make_full(const nearfield::Network& network, int nodes) {
  const int max_nodes = 30'000 * network.nodes_per_router;  // links are numbered by an int
  if (nodes > max_nodes) check_room(network, nodes, max_nodes, {});
  return std::make_unique<Full>(nodes, network.nodes_per_router);
}

}  // namespace

extern const TopologySpec full_topology;
const TopologySpec full_topology{
    "full", "every router has a link to every other one", "nothing (leave it out)", make_full, 0, 0};

}  // namespace nearfield::sim

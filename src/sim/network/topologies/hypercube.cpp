// A hypercube: 2^d routers, each with links to those whose number differs in one bit, as in the Origin 2000 of paper S3
// (papers/S3/README.md), which has two nodes per router. E-cube routing: the lowest differing bit is crossed first. Not
// modeled: the Origin's optional diagonal links.
#include <bit>
#include <stdexcept>

#include "machine/machine.hpp"
#include "sim/network/topology.hpp"

namespace nearfield::sim {
namespace {

class HypercubeTopology final : public Topology {
 public:
  HypercubeTopology(int dimensions, int nodes_per_router) : Topology(nodes_per_router), num_dimensions_(dimensions) {}

  int max_nodes() const override { return (1 << num_dimensions_) * nodes_per_router_; }
  int num_links() const override { return (1 << num_dimensions_) * num_dimensions_; }
  Link link(int number) const override {
    const int router = number / num_dimensions_;
    return {router, router ^ (1 << number % num_dimensions_)};
  }
  int num_hops(int from, int to) const override {
    return std::popcount(static_cast<unsigned>(router_of(from) ^ router_of(to)));
  }
  void route(int from, int to, std::vector<int>& links) const override {
    links.clear();
    int router = router_of(from);
    const int end = router_of(to);
    for (int bit = 0; bit < num_dimensions_; ++bit)
      if ((router ^ end) >> bit & 1) {
        links.push_back(router * num_dimensions_ + bit);
        router ^= 1 << bit;
      }
  }

 private:
  int num_dimensions_;
};

constexpr int max_dimensions = 20;

int dimensions_for(int nodes, int nodes_per_router) {
  int dimensions = 0;
  while ((1L << dimensions) * nodes_per_router < nodes) ++dimensions;
  return dimensions;
}

std::unique_ptr<Topology> make_hypercube(const nearfield::Network& network, int nodes) {
  if (!network.shape.empty() && network.shape.front() > max_dimensions)
    throw std::invalid_argument("shape: a hypercube of at most " + std::to_string(max_dimensions) + " dimensions");
  const int min_dimensions = dimensions_for(nodes, network.nodes_per_router);
  if (min_dimensions > max_dimensions) check_capacity(network, nodes, 1L << max_dimensions, {max_dimensions});
  const int dimensions = network.shape.empty() ? min_dimensions : network.shape.front();
  check_capacity(network, nodes, (1L << dimensions) * network.nodes_per_router, {min_dimensions});
  return std::make_unique<HypercubeTopology>(dimensions, network.nodes_per_router);
}

}  // namespace

extern const TopologySpec hypercube_topology;
const TopologySpec hypercube_topology{"hypercube",
                                      "2^d routers, linked where one bit of their numbers differs",
                                      "the number of dimensions, or nothing for as many as it takes",
                                      make_hypercube,
                                      0,
                                      1};

}  // namespace nearfield::sim

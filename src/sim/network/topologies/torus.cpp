// A torus: a grid of routers with wrap-around links in every dimension, as in the T3E of paper S3
// (papers/S3/README.md), which has three dimensions. Dimension-order routing: the dimensions are crossed one after the
// other, each in the shorter direction, or upward if both directions are equally long. Not modeled: the T3E's adaptive
// routing.
#include <cstdlib>

#include "machine/machine.hpp"
#include "sim/network/topology.hpp"

namespace nearfield::sim {
namespace {

class TorusTopology final : public Topology {
 public:
  TorusTopology(const nearfield::Network& network, int) : Topology(network.nodes_per_router), shape_(network.shape) {
    for (const int extent : shape_) num_routers_ *= extent;
  }

  int max_nodes() const override { return num_routers_ * nodes_per_router_; }
  // Every router has two links in every dimension: up and down.
  int num_links() const override { return num_routers_ * num_dimensions() * 2; }
  Link link(int number) const override {
    const int router = number / 2 / num_dimensions();
    return {router, neighbor_of(router, number / 2 % num_dimensions(), number % 2 == 0 ? 1 : -1)};
  }

  int num_hops(int from, int to) const override {
    int sum = 0, a = router_of(from), b = router_of(to);
    for (const int extent : shape_) {
      sum += std::abs(signed_distance(a % extent, b % extent, extent));
      a /= extent;
      b /= extent;
    }
    return sum;
  }

  void route(int from, int to, std::vector<int>& links) const override {
    links.clear();
    int router = router_of(from), a = router, b = router_of(to);
    for (int d = 0; d < num_dimensions(); ++d) {
      const int extent = shape_[static_cast<std::size_t>(d)];
      int remaining_hops = signed_distance(a % extent, b % extent, extent);
      for (const int direction = remaining_hops > 0 ? 1 : -1; remaining_hops != 0; remaining_hops -= direction) {
        links.push_back((router * num_dimensions() + d) * 2 + (direction > 0 ? 0 : 1));
        router = neighbor_of(router, d, direction);
      }
      a /= extent;
      b /= extent;
    }
  }

 private:
  int num_dimensions() const { return static_cast<int>(shape_.size()); }
  // Returns the signed number of hops from `a` to `b` in the shorter direction of a ring of `extent` routers.
  static int signed_distance(int a, int b, int extent) {
    const int up = (b - a + extent) % extent;
    return up <= extent - up ? up : up - extent;
  }
  int neighbor_of(int router, int dimension, int direction) const {
    int stride = 1;
    for (int d = 0; d < dimension; ++d) stride *= shape_[static_cast<std::size_t>(d)];
    const int extent = shape_[static_cast<std::size_t>(dimension)];
    const int place = router / stride % extent;
    return router + ((place + direction + extent) % extent - place) * stride;
  }

  std::vector<int> shape_;
  int num_routers_ = 1;
};

}  // namespace

extern const TopologySpec torus_topology;
const TopologySpec torus_topology{"torus",
                                  "a grid of routers closed to rings, in dimension order",
                                  "routers per dimension",
                                  make_implementation<Topology, TorusTopology>,
                                  1,
                                  8};

}  // namespace nearfield::sim

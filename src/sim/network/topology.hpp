// The routers, the links between them, and the route between two nodes. Each file in topologies/ exports one
// TopologySpec. Routes are minimal and static (no adaptive routing). The cables between nodes and routers are not links
// here: the NICs model them (network.hpp).
#pragma once

#include <memory>
#include <vector>

#include "base/registry.hpp"

namespace nearfield {
struct Network;
}

namespace nearfield::sim {

// A directed link between routers.
struct Link {
  int from = 0, to = 0;
};

class Topology {
 public:
  explicit Topology(int nodes_per_router) : nodes_per_router_(nodes_per_router) {}
  virtual ~Topology() = default;
  virtual int max_nodes() const = 0;
  int router_of(int node) const { return node / nodes_per_router_; }
  virtual int num_links() const = 0;  // the number of links; links are numbered from 0
  virtual Link link(int number) const = 0;
  // Returns the number of links on the route; 0 between nodes of one router. It is the same in both directions.
  virtual int num_hops(int from, int to) const = 0;
  // Replaces `links` by the numbers of the links on the route, in order.
  virtual void route(int from, int to, std::vector<int>& links) const = 0;

 protected:
  int nodes_per_router_;
};

struct TopologySpec {
  const char* name;
  const char* summary;
  const char* shape_meaning;  // human-readable meaning of the numbers in Network::shape
  // Makes the topology for `nodes` nodes. The caller has checked the shape. Throws std::invalid_argument if the
  // topology is impossible; if it merely has too few nodes, make_topology() throws and names the nearest valid choice.
  std::unique_ptr<Topology> (*make)(const nearfield::Network& network, int nodes);
  std::size_t min_extents, max_extents;  // how many numbers a shape has
};

const std::vector<const TopologySpec*>& all_topologies();
// Makes the topology that a network description names, for `nodes` nodes. If the name, the shape or the number of nodes
// is not valid, throws std::invalid_argument, whose message names the nearest valid choice.
std::unique_ptr<Topology> make_topology(const nearfield::Network& network, int nodes);

// ---- for the files in topologies/

// Throws std::invalid_argument unless `nodes` fit into `capacity`; `sufficient_shape` is a shape that has room for
// them.
void check_capacity(const nearfield::Network& network, int nodes, long capacity,
                    const std::vector<int>& sufficient_shape);

}  // namespace nearfield::sim

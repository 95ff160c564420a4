// What joins the nodes: routers, links between them, and the way from node to node. One file per topology in
// topologies/, each exporting one TopologySpec. Routes are minimal and always the same (no adaptive routing). The
// cables between nodes and their routers are not links here: they are the NICs' own (network.hpp).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "machine/machine.hpp"

namespace nearfield::sim {

// One way, from router to router.
struct Link {
  int from = 0, to = 0;
};

class Topology {
 public:
  virtual ~Topology() = default;
  virtual int nodes() const = 0;  // that it has room for
  virtual int router_of(int node) const = 0;
  virtual int links() const = 0;  // numbered from 0
  virtual Link link(int number) const = 0;
  // Links on the way; 0 between nodes of one router. The same in both directions.
  virtual int hops(int from, int to) const = 0;
  // Replaces `links` by the numbers of those on the way, in order.
  virtual void route(int from, int to, std::vector<int>& links) const = 0;
};

struct TopologySpec {
  const char* name;
  const char* summary;
  const char* shape;  // what the numbers of Network::shape are
  // For so many nodes; std::invalid_argument, naming the nearest choice that is valid, when they do not fit.
  std::unique_ptr<Topology> (*make)(const nearfield::Network& network, int nodes);
};

const std::vector<const TopologySpec*>& all_topologies();
// The topology that the network names; std::invalid_argument naming the nearest one.
std::unique_ptr<Topology> make_topology(const nearfield::Network& network, int nodes);

// ---- for the files in topologies/

// Numbers above 0, `least` of them at least and `most` at most; std::invalid_argument saying what they are.
void check_shape(const TopologySpec& spec, const nearfield::Network& network, std::size_t least, std::size_t most);
// std::invalid_argument unless `nodes` fit into `room`; `enough` is a shape that has room for them.
void check_room(const TopologySpec& spec, const nearfield::Network& network, int nodes, long room,
                const std::vector<int>& enough);
// The shape with that one of its numbers raised that makes the least room that is enough; room is `per_unit` times the
// product of the shape.
std::vector<int> raised_shape(std::vector<int> shape, int nodes, long per_unit);

}  // namespace nearfield::sim

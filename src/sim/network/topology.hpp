// The routers, the links between them, and the way from node to node. Each file in topologies/ exports one
// TopologySpec. Routes are minimal and always the same (no adaptive routing). The
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
  // Returns the number of links on the way; 0 between nodes of one router. It is the same in both directions.
  virtual int hops(int from, int to) const = 0;
  // Replaces `links` by the numbers of those on the way, in order.
  virtual void route(int from, int to, std::vector<int>& links) const = 0;
};

struct TopologySpec {
  const char* name;
  const char* summary;
  const char* shape;  // what the numbers of Network::shape are
  // Makes it for so many nodes. Throws std::invalid_argument that names the nearest valid choice if they do not fit.
  std::unique_ptr<Topology> (*make)(const nearfield::Network& network, int nodes);
};

const std::vector<const TopologySpec*>& all_topologies();
// Returns the topology that the network names. Throws std::invalid_argument that names the nearest one.
std::unique_ptr<Topology> make_topology(const nearfield::Network& network, int nodes);

// ---- for the files in topologies/

// Requires `least` to `most` numbers above 0; otherwise throws std::invalid_argument that says what they are.
void check_shape(const TopologySpec& spec, const nearfield::Network& network, std::size_t least, std::size_t most);
// Throws std::invalid_argument unless `nodes` fit into `room`; `enough` is a shape that has room for them.
void check_room(const TopologySpec& spec, const nearfield::Network& network, int nodes, long room,
                const std::vector<int>& enough);
// Returns the shape with the one number raised that makes the least sufficient room, which is `per_unit` times the
// product of the shape.
std::vector<int> raised_shape(std::vector<int> shape, int nodes, long per_unit);

}  // namespace nearfield::sim

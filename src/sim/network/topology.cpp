#include "sim/network/topology.hpp"

#include <stdexcept>

#include "machine/machine.hpp"

namespace nearfield::sim {
namespace {

std::string shape_text(const std::vector<int>& shape) {
  std::string words;
  for (const int number : shape) words += (words.empty() ? "" : ", ") + std::to_string(number);
  return "[" + words + "]";
}

long product_of_extents(const std::vector<int>& shape) {
  long all = 1;
  for (const int number : shape) all *= number;
  return all;
}

// Throws std::invalid_argument unless the shape has a valid count of numbers, all above 0, with a product of at most a
// million.
void check_shape(const TopologySpec& spec, const nearfield::Network& network) {
  bool good = network.shape.size() >= spec.min_numbers && network.shape.size() <= spec.max_numbers;
  long room = 1;
  for (const int number : network.shape) {
    good = good && number > 0;
    room = good ? room * number : room;
    good = good && room <= 1'000'000;
  }
  if (!good)
    throw std::invalid_argument("the shape " + shape_text(network.shape) + " is none of " + spec.name +
                                "; it takes: " + spec.shape + ", for a million nodes at most");
}

// Returns the smallest shape with room for `nodes` nodes that differs from `shape` in one number only. A shape has room
// for `per_unit` times the product of its numbers.
std::vector<int> raised_shape(std::vector<int> shape, int nodes, long per_unit) {
  std::vector<int> best;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    auto raised = shape;
    const long others = product_of_extents(shape) / shape[i] * per_unit;
    raised[i] = static_cast<int>((nodes + others - 1) / others);
    if (best.empty() || product_of_extents(raised) < product_of_extents(best)) best = raised;
  }
  return best;
}

}  // namespace

std::unique_ptr<Topology> make_topology(const nearfield::Network& network, int nodes) {
  if (nodes < 1) throw std::invalid_argument("nodes: at least 1, not " + std::to_string(nodes));
  if (network.nodes_per_router < 1 || network.nodes_per_router > 1000)
    throw std::invalid_argument("nodes_per_router: from 1 to 1000, not " + std::to_string(network.nodes_per_router));
  const TopologySpec& spec = find_named(all_topologies(), network.topology, "topology");
  check_shape(spec, network);
  auto topology = spec.make(network, nodes);
  if (const int room = topology->max_nodes(); room < nodes)
    check_room(network, nodes, room, raised_shape(network.shape, nodes, room / product_of_extents(network.shape)));
  return topology;
}

void check_room(const nearfield::Network& network, int nodes, long room, const std::vector<int>& enough) {
  if (nodes <= room) return;
  throw std::invalid_argument(network.topology + " of shape " + shape_text(network.shape) + " has room for " +
                              std::to_string(room) + " nodes, not " + std::to_string(nodes) +
                              "; the nearest: " + std::to_string(room) + " nodes, or shape " + shape_text(enough));
}

}  // namespace nearfield::sim

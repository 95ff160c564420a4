#include "sim/network/topology.hpp"

#include <stdexcept>

#include "machine/machine.hpp"

namespace nearfield::sim {
namespace {

std::string format_shape(const std::vector<int>& shape) {
  std::string words;
  for (const int number : shape) words += (words.empty() ? "" : ", ") + std::to_string(number);
  return "[" + words + "]";
}

long product_of_extents(const std::vector<int>& shape) {
  long all = 1;
  for (const int number : shape) all *= number;
  return all;
}

// Throws std::invalid_argument unless the topology allows this count of shape numbers, and all numbers are positive
// and have a product of at most a million.
void check_shape(const TopologySpec& spec, const nearfield::Network& network) {
  bool is_valid = network.shape.size() >= spec.min_extents && network.shape.size() <= spec.max_extents;
  long capacity = 1;
  for (const int number : network.shape) {
    is_valid = is_valid && number > 0;
    capacity = is_valid ? capacity * number : capacity;
    is_valid = is_valid && capacity <= 1'000'000;
  }
  if (!is_valid)
    throw std::invalid_argument("the shape " + format_shape(network.shape) + " is none of " + spec.name +
                                "; it takes: " + spec.shape_meaning + ", for a million nodes at most");
}

// Returns the smallest shape with room for `nodes` nodes that differs from `shape` in one number only. A shape has room
// for `per_unit` times the product of its numbers of nodes.
std::vector<int> nearest_sufficient_shape(std::vector<int> shape, int nodes, long per_unit) {
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
  if (const int capacity = topology->max_nodes(); capacity < nodes)
    check_capacity(network, nodes, capacity,
                   nearest_sufficient_shape(network.shape, nodes, capacity / product_of_extents(network.shape)));
  return topology;
}

void check_capacity(const nearfield::Network& network, int nodes, long capacity,
                    const std::vector<int>& sufficient_shape) {
  if (nodes <= capacity) return;
  throw std::invalid_argument(network.topology + " of shape " + format_shape(network.shape) + " has room for " +
                              std::to_string(capacity) + " nodes, not " + std::to_string(nodes) + "; the nearest: " +
                              std::to_string(capacity) + " nodes, or shape " + format_shape(sufficient_shape));
}

}  // namespace nearfield::sim

#include "sim/memory/links.hpp"

#include "sim/network/topology.hpp"

namespace nearfield::sim {
namespace {

int cores_per_hub(const Machine& machine) {
  return machine.dram.shared_by > 0 ? machine.dram.shared_by : machine.cores;
}

int num_hubs(const Machine& machine) { return (machine.cores + cores_per_hub(machine) - 1) / cores_per_hub(machine); }

std::unique_ptr<Topology> make_hub_topology(const Machine& machine) {
  nearfield::Network between_hubs;
  between_hubs.topology = machine.links->topology;
  between_hubs.shape = machine.links->shape;
  between_hubs.nodes_per_router = machine.links->hubs_per_router;
  return make_topology(between_hubs, num_hubs(machine));
}

}  // namespace

std::vector<int> hops_of_hubs(const Machine& machine) {
  std::vector<int> hops;
  if (!machine.links) return hops;
  const auto routers = make_hub_topology(machine);
  for (int hub = 0; hub < num_hubs(machine); ++hub) hops.push_back(routers->num_hops(0, hub));
  return hops;
}

HubLinks::HubLinks(const Machine& machine) {
  if (!machine.links) return;
  const auto routers = make_hub_topology(machine);
  const int num_node_hubs = num_hubs(machine), num_router_links = routers->num_links();
  cores_per_hub_ = cores_per_hub(machine);
  num_hubs_ = static_cast<std::size_t>(num_node_hubs);
  closest_remote_latency_ = ps_from_ns(machine.dram.remote_ns);
  ps_per_byte_ = machine.links->gb_per_s > 0 ? 1e3 / machine.links->gb_per_s : 0;
  links_.resize(static_cast<std::size_t>(num_router_links + 2 * num_node_hubs));
  routes_.resize(num_hubs_ * num_hubs_);
  for (int from = 0; from < num_node_hubs; ++from)
    for (int to = 0; to < num_node_hubs; ++to) {
      if (from == to) continue;
      auto& route = routes_[static_cast<std::size_t>(from) * num_hubs_ + static_cast<std::size_t>(to)];
      routers->route(from, to, route.links);
      route.extra_latency = ps_from_ns(machine.links->hop_ns) * static_cast<double>(route.links.size());
      route.links.insert(route.links.begin(), num_router_links + from);
      route.links.push_back(num_router_links + num_node_hubs + to);
    }
}

}  // namespace nearfield::sim

// Transfers of lines between the hubs of a node (NUMA): the extra latency of memories and caches that are several
// routers away, and the queueing of lines on links. A line crosses the link out of one hub, the links between routers
// and the link into the other hub, and occupies each link for the transfer time of the line's bytes. Not modeled:
// requests and acknowledgements, which are short; the time from one link of a route to the next, so that a line
// occupies all links of its route at its arrival; the snoop of the holder of an unmodified line.
#pragma once

#include <vector>

#include "machine/machine.hpp"
#include "sim/memory/bus.hpp"

namespace nearfield::sim {

// Returns, for each hub, the number of links between routers on the route from the hub of core 0; empty if the machine
// has no hubs. Throws std::invalid_argument if the topology has no room for all hubs.
std::vector<int> hops_of_hubs(const Machine& machine);

// The links between the hubs of a node. Functions identify a hub by any of its cores.
class HubLinks {
 public:
  explicit HubLinks(const Machine& machine);

  bool has_links() const { return !links_.empty(); }
  // Returns the extra latency of a remote memory over that of the closest remote memory.
  Ps latency_beyond_first_router(int core, int home_core) const { return route(core, home_core).extra_latency; }
  // Returns the extra latency of a line from another core's cache that is due to the distances between the hubs of the
  // requester, the line's home memory and the owner: the request goes to the home hub and from there to the owner, and
  // the owner sends the line to the requester.
  Ps extra_latency_via_home(int requester, int home_core, int owner) const {
    return std::nearbyint(
        (round_trip(requester, home_core) + round_trip(home_core, owner) + round_trip(owner, requester)) / 2);
  }
  // Reserves all links of the route for a line. Returns the time at which the line arrives; on idle links that is
  // `arrival`.
  TimeVector cross_route(int from, int to, std::uint64_t bytes, TimeVector arrival) {
    const Ps time = transfer_time(bytes);
    for (const int link : route(from, to).links)
      arrival = link_bus(link).reserve(arrival + -time, TimeVector(time)) + time;
    return arrival;
  }
  // Appends a write-back to memory after all other traffic of the links on the route. No core waits for it.
  void post_write_back(int from, int to, std::uint64_t bytes) {
    for (const int link : route(from, to).links) link_bus(link).append_reservation(TimeVector(transfer_time(bytes)));
  }

 private:
  struct Route {
    std::vector<int> links;
    Ps extra_latency = 0;
  };

  std::size_t hub_of(int core) const { return static_cast<std::size_t>(core / cores_per_hub_); }
  const Route& route(int from, int to) const { return routes_[hub_of(from) * num_hubs_ + hub_of(to)]; }
  Ps round_trip(int from, int to) const {
    return hub_of(from) == hub_of(to) ? 0 : closest_remote_latency_ + route(from, to).extra_latency;
  }
  Bus& link_bus(int number) { return links_[static_cast<std::size_t>(number)]; }
  Ps transfer_time(std::uint64_t bytes) const { return std::nearbyint(static_cast<double>(bytes) * ps_per_byte_); }

  int cores_per_hub_ = 1;
  std::size_t num_hubs_ = 0;
  Ps closest_remote_latency_ = 0;
  double ps_per_byte_ = 0;
  std::vector<Bus> links_;     // first those between routers, then those out of each hub, then those into each hub
  std::vector<Route> routes_;  // from each hub to each hub
};

}  // namespace nearfield::sim

// Transfers of lines between the hubs of a node: how much longer memory and other cores' caches take because they are
// several routers away, and how long lines queue. A line crosses its hub's link, the links between routers and the
// other hub's link, and occupies each for the transfer time of its bytes. Left out: requests and acknowledgements,
// which are short; the time from one link of a route to the next, so that a line occupies all of them when it arrives;
// that the holder of an unmodified line is snooped, too.
#pragma once

#include <vector>

#include "machine/machine.hpp"
#include "sim/memory/bus.hpp"

namespace nearfield::sim {

// Returns the number of links between routers from the hub of core 0 to each hub; nothing if a machine has no hubs.
// Throws std::invalid_argument if its routers have no room for them.
std::vector<int> hops_of_hubs(const Machine& machine);

// Hubs are identified by one of their cores.
class HubLinks {
 public:
  explicit HubLinks(const Machine& machine);

  bool has_links() const { return !links_.empty(); }
  // Returns the latency beyond that of the closest remote memory.
  Ps latency_beyond_first_router(int core, int core_at_home) const { return route(core, core_at_home).beyond_first; }
  // Returns how much longer it takes to get a line from another core's cache than if that core, the line's home and
  // the requesting core had one hub: the request goes to the home, from there to the holder, and the line comes from
  // there.
  Ps extra_latency_via_home(int core, int core_at_home, int holder) const {
    return std::nearbyint(
        (round_trip(core, core_at_home) + round_trip(core_at_home, holder) + round_trip(holder, core)) / 2);
  }
  // Returns when a line arrives that would arrive at `arrival` on idle links.
  TimeVector cross_route(int from, int to, std::uint64_t bytes, TimeVector arrival) {
    const Ps time = transfer_time(bytes);
    for (const int link : route(from, to).links)
      arrival = link_bus(link).reserve(arrival + -time, TimeVector(time)) + time;
    return arrival;
  }
  // Queues a line that is written to memory behind all others; nobody waits for it.
  void post_write_back(int from, int to, std::uint64_t bytes) {
    for (const int link : route(from, to).links) link_bus(link).append_reservation(TimeVector(transfer_time(bytes)));
  }

 private:
  struct Route {
    std::vector<int> links;
    Ps beyond_first = 0;
  };

  std::size_t hub_of(int core) const { return static_cast<std::size_t>(core / cores_per_hub_); }
  const Route& route(int from, int to) const { return routes_[hub_of(from) * hubs_ + hub_of(to)]; }
  Ps round_trip(int from, int to) const {
    return hub_of(from) == hub_of(to) ? 0 : first_router_ + route(from, to).beyond_first;
  }
  Bus& link_bus(int number) { return links_[static_cast<std::size_t>(number)]; }
  Ps transfer_time(std::uint64_t bytes) const { return std::nearbyint(static_cast<double>(bytes) * ps_per_byte_); }

  int cores_per_hub_ = 1;
  std::size_t hubs_ = 0;
  Ps first_router_ = 0;
  double ps_per_byte_ = 0;
  std::vector<Bus> links_;     // between routers; out of each hub; into each hub
  std::vector<Route> routes_;  // from each hub to each hub
};

}  // namespace nearfield::sim

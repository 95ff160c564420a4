// Computes the way of lines between the hubs of a node: how much longer memory and other cores' caches take because they
// are several routers away, and how long lines wait for each other. A line crosses its hub's link, the links between
// routers and the other hub's link, and occupies each for as long as its bytes take there. Left out: requests and
// acknowledgements, which are short; the time from one link of a way to the next, so that a line occupies all of them
// when it arrives; that the holder of a line which nobody modified is asked, too.
#pragma once

#include <vector>

#include "machine/machine.hpp"
#include "sim/memory/bus.hpp"

namespace nearfield::sim {

// Returns how many links between routers lie on the way from the hub of core 0 to each hub; nothing if a machine has no
// hubs. Throws std::invalid_argument if its routers have no room for them.
std::vector<int> hops_of_hubs(const Machine& machine);

// Hubs are named by one of their cores.
class HubLinks {
 public:
  explicit HubLinks(const Machine& machine);

  bool any() const { return !links_.empty(); }
  // Returns the latency beyond that of the nearest other memory.
  Ps beyond_first_router(int core, int core_at_home) const { return way(core, core_at_home).beyond_first; }
  // Returns how much longer it takes to get a line from another core's cache than if that core, the line's home and the
  // core that asks had one hub: the request goes to the home, from there to the holder, and the line comes from there.
  Ps by_way_of_home(int core, int core_at_home, int holder) const {
    return std::nearbyint(
        (to_and_fro(core, core_at_home) + to_and_fro(core_at_home, holder) + to_and_fro(holder, core)) / 2);
  }
  // Returns when a line is there that would be there at `there` if nothing else were on its way.
  Times cross(int from, int to, std::uint64_t bytes, Times there) {
    const Ps time = takes(bytes);
    for (const int link : way(from, to).links) there = link_of(link).occupy(there + -time, Times(time)) + time;
    return there;
  }
  // Puts a line that is written to memory behind all others; nobody waits for it.
  void post(int from, int to, std::uint64_t bytes) {
    for (const int link : way(from, to).links) link_of(link).append(Times(takes(bytes)));
  }

 private:
  struct Way {
    std::vector<int> links;
    Ps beyond_first = 0;
  };

  std::size_t hub_of(int core) const { return static_cast<std::size_t>(core / cores_per_hub_); }
  const Way& way(int from, int to) const { return ways_[hub_of(from) * hubs_ + hub_of(to)]; }
  Ps to_and_fro(int from, int to) const {
    return hub_of(from) == hub_of(to) ? 0 : first_router_ + way(from, to).beyond_first;
  }
  Bus& link_of(int number) { return links_[static_cast<std::size_t>(number)]; }
  Ps takes(std::uint64_t bytes) const { return std::nearbyint(static_cast<double>(bytes) * ps_per_byte_); }

  int cores_per_hub_ = 1;
  std::size_t hubs_ = 0;
  Ps first_router_ = 0;
  double ps_per_byte_ = 0;
  std::vector<Bus> links_;  // those between routers; those out of each hub; those into each hub
  std::vector<Way> ways_;   // from each hub to each
};

}  // namespace nearfield::sim

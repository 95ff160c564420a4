// Computes how long lines wait for what connects a socket to the rest of its node: a front-side bus, which all that
// enters or leaves the socket crosses, or links, which carry what the socket gets from other sockets and their memories.
#pragma once

#include <vector>

#include "machine/machine.hpp"
#include "sim/memory/bus.hpp"

namespace nearfield::sim {

class Sockets {
 public:
  explicit Sockets(const Machine& machine)
      : cores_(machine.socket.shared_by > 0 ? machine.socket.shared_by : machine.cores),
        cores_per_cache_(machine.caches.back().shared_by),
        has_bus_(machine.socket.carries == SocketTraffic::everything),
        ps_per_byte_(machine.socket.gb_per_s > 0 ? 1e3 / machine.socket.gb_per_s : 0) {
    if (ps_per_byte_ > 0) connections_.resize(static_cast<std::size_t>((machine.cores + cores_ - 1) / cores_));
  }

  bool limit() const { return !connections_.empty(); }
  // Each returns when a line is there that would be there at `there` if nothing else were on its way: from a memory,
  // beside which `core_at_home` is, or from one of the last caches.
  Times from_memory(int core, int core_at_home, std::uint64_t bytes, const Times& there) {
    return has_bus_ || of(core) != of(core_at_home) ? cross(core, bytes, there) : there;
  }
  Times from_cache(int core, int number, std::uint64_t bytes, const Times& there) {
    const int holder = number * cores_per_cache_;
    if (of(core) == of(holder)) return has_bus_ ? cross(core, bytes, there) : there;
    return cross(core, bytes, has_bus_ ? cross(holder, bytes, there) : there);
  }
  // Puts a line that a core writes to memory behind all others; nobody waits for it.
  void post(int core, int core_at_home, std::uint64_t bytes) {
    if (!has_bus_ && of(core) == of(core_at_home)) return;
    connections_[of(has_bus_ ? core : core_at_home)].append(Times(takes(bytes)));
  }

 private:
  std::size_t of(int core) const { return static_cast<std::size_t>(core / cores_); }
  Ps takes(std::uint64_t bytes) const { return std::nearbyint(static_cast<double>(bytes) * ps_per_byte_); }
  Times cross(int core, std::uint64_t bytes, const Times& there) {
    const Ps time = takes(bytes);
    return connections_[of(core)].occupy(there + -time, Times(time)) + time;
  }

  int cores_, cores_per_cache_;
  bool has_bus_;
  double ps_per_byte_;
  std::vector<Bus> connections_;
};

}  // namespace nearfield::sim

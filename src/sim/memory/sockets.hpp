// The bandwidth between a socket and the rest of its node: either a front-side bus, which all lines into and out of the
// socket cross, or links, which only lines from other sockets and their memories cross.
#pragma once

#include <vector>

#include "machine/machine.hpp"
#include "sim/memory/bus.hpp"

namespace nearfield::sim {

class Sockets {
 public:
  explicit Sockets(const Machine& machine)
      : cores_per_socket_(machine.socket.shared_by > 0 ? machine.socket.shared_by : machine.cores),
        cores_per_cache_(machine.caches.back().shared_by),
        has_bus_(machine.socket.carries == SocketTraffic::everything),
        ps_per_byte_(machine.socket.gb_per_s > 0 ? 1e3 / machine.socket.gb_per_s : 0) {
    if (ps_per_byte_ > 0)
      connections_.resize(static_cast<std::size_t>((machine.cores + cores_per_socket_ - 1) / cores_per_socket_));
  }

  bool have_limited_bandwidth() const { return !connections_.empty(); }
  // arrival_from_memory() and arrival_from_cache() return the time at which a line arrives at `core`; on an idle
  // connection that is `arrival`. The line comes from the memory that is local to `home_core`, or from the
  // last-level cache `cache_number`.
  TimeVector arrival_from_memory(int core, int home_core, std::uint64_t bytes, const TimeVector& arrival) {
    return has_bus_ || socket_of(core) != socket_of(home_core) ? cross_connection(core, bytes, arrival) : arrival;
  }
  TimeVector arrival_from_cache(int core, int cache_number, std::uint64_t bytes, const TimeVector& arrival) {
    const int holder = cache_number * cores_per_cache_;
    if (socket_of(core) == socket_of(holder)) return has_bus_ ? cross_connection(core, bytes, arrival) : arrival;
    return cross_connection(core, bytes, has_bus_ ? cross_connection(holder, bytes, arrival) : arrival);
  }
  // Appends a write-back of a core to memory after all other traffic of the connection. No core waits for it.
  void post_write_back(int core, int home_core, std::uint64_t bytes) {
    if (!has_bus_ && socket_of(core) == socket_of(home_core)) return;
    connections_[socket_of(has_bus_ ? core : home_core)].append_reservation(TimeVector(transfer_time(bytes)));
  }

 private:
  std::size_t socket_of(int core) const { return static_cast<std::size_t>(core / cores_per_socket_); }
  Ps transfer_time(std::uint64_t bytes) const { return std::nearbyint(static_cast<double>(bytes) * ps_per_byte_); }
  TimeVector cross_connection(int core, std::uint64_t bytes, const TimeVector& arrival) {
    const Ps time = transfer_time(bytes);
    return connections_[socket_of(core)].reserve(arrival + -time, TimeVector(time)) + time;
  }

  int cores_per_socket_, cores_per_cache_;
  bool has_bus_;
  double ps_per_byte_;
  std::vector<Bus> connections_;
};

}  // namespace nearfield::sim

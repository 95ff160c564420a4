// The lane of a checked collective that spans two nodes.
#pragma once

#include <cstring>

#include "collectives/exchange.hpp"

namespace nearfield::collectives {

// What goes between two nodes, of which only this one is run: the ranks of the other one have the same data.
template <class Port, class FillData, class Combine>
struct MirrorLane {
  Port* port;
  std::uint64_t call;  // its number in the sequence, from 1 on
  FillData fill_data;  // writes what a root on the other node sends: (address, bytes)
  Combine combine;

  void barrier() const { port->last_barrier_across() = call; }
  void bcast(Bytes* data, std::size_t bytes, int root) const {
    if (root == 0) return port->note_own(data, bytes, false);
    port->note_own(data, bytes, true);
    fill_data(data, bytes);
  }
  void reduce(Bytes* data, std::size_t count, int) const { allreduce(data, count); }
  void allreduce(Bytes* data, std::size_t count) const { combine(data, data, data, count); }
  void allgather(const Bytes* own, Bytes* all, std::size_t bytes) const {
    port->note_own(own, bytes, false);
    port->note_own(all, 2 * bytes, true);
    std::memcpy(all, own, bytes);
    std::memcpy(all + bytes, own, bytes);
  }
  void alltoall(const Bytes* send, Bytes* receive, std::size_t bytes) const {
    std::memcpy(receive, send, bytes);
    std::memcpy(receive + bytes, send, bytes);
  }
};

}  // namespace nearfield::collectives

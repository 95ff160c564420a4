// Computes the times of messages from NIC to NIC: LogGP (latency, gap between messages of a NIC, time per byte) over a
// topology, with links that carry one message at a time, first come first served. Cut-through: a message occupies every
// link of its way for as long as its bytes take there, from when its first byte gets there. Left out: packets, limits
// of the routers' buffers (who waits, waits without blocking the links behind it), errors.
//
// One run carries all variants and memory speeds: who comes first is decided by the order of the calls, when by each
// clock. Alone on its way, a message's last byte arrives at
//   start + latency + (hops - 1) * hop + bytes / min(bandwidth of NIC and links),  in whole picoseconds.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "machine/machine.hpp"
#include "sim/clock.hpp"
#include "sim/network/topology.hpp"

namespace nearfield::sim {

struct Passage {
  Clock left;         // the last byte has left the sender's NIC
  Clock first, last;  // byte at the receiver's NIC
};

class Network {
 public:
  // Throws std::invalid_argument for a machine without network or NIC, or with too small a network.
  Network(const Machine& machine, int nodes, int variants);

  // A message leaves its node. Must be called in the order of `start` for each node, and may be called for several at
  // once. `feed` is the time in which the NIC reads the message from memory meanwhile; no byte leaves before it has been
  // read. Returns when the message would arrive if its bytes took no time on the way.
  Passage leave(int from, std::uint64_t bytes, const Clock& start, const Clock& feed);
  // Carries a message that has left its node to its destination. Must be called in the order of `start` for all.
  void carry(int from, int to, std::uint64_t bytes, Passage& passage);
  // Returns a time that every message takes at least from `start` to its destination.
  Ps least_latency() const { return latency_; }

  const Topology& topology() const { return *topology_; }
  std::uint64_t messages() const { return messages_; }
  std::uint64_t bytes() const { return bytes_; }
  // Returns the time of `bytes` at a bandwidth; 0 GB/s: no limit.
  static Ps serial(std::uint64_t bytes, double gb_per_s);

 private:
  // The times at which links are free, per variant. Most links of a large network are never used, so blocks of times
  // are made at the first use.
  class Links {
   public:
    Links(int links, int variants);
    Times* free(int link);

   private:
    static constexpr int block = 64;
    int variants_;
    std::vector<std::unique_ptr<Times[]>> blocks_;
  };

  Times* of(std::vector<Times>& nics, int node) const { return &nics[static_cast<std::size_t>(node * variants_)]; }
  void pass(Times* free, Clock& first, Clock& last, Ps serial, Ps gap) const;

  int variants_;
  nearfield::Network parameters_;
  double nic_gb_per_s_;
  Ps latency_, hop_, gap_;
  std::unique_ptr<Topology> topology_;
  std::vector<Times> sending_, receiving_;  // when NICs are free, per node and variant
  Links links_;
  std::vector<int> route_;
  std::uint64_t messages_ = 0, bytes_ = 0;
};

}  // namespace nearfield::sim

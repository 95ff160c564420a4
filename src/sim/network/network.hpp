// Computes the times of messages from NIC to NIC by the LogGP model (latency, gap between messages of a NIC, time per
// byte), over a topology whose links carry one message at a time, first come first served. Routing is cut-through: a
// message occupies every link of its route from the arrival of its first byte, for the time that its bytes take there.
// Not modeled: packets, finite router buffers (a waiting message does not block the links behind it), errors.
//
// One run computes the times of all variants and memory speeds. The order of the calls is the order of messages for all
// of them. Without contention, a message's last byte arrives at
//   start + latency + (hops - 1) * hop + bytes / min(bandwidth of NIC and links),  in whole picoseconds.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "machine/machine.hpp"
#include "sim/engine/config_clock.hpp"
#include "sim/network/topology.hpp"

namespace nearfield::sim {

// The times of one message on its way through the network.
struct MessageTimes {
  ConfigClock departure;                              // of the last byte from the sender's NIC
  ConfigClock first_byte_arrival, last_byte_arrival;  // at the receiver's NIC
  int hops = 0;                                       // after route_message()
};

class Network {
 public:
  // Throws std::invalid_argument for a machine without network or NIC, or whose network is too small.
  Network(const Machine& machine, int nodes, int variants);

  // Injects a message into the network. Must be called in the order of `start` for each node; different nodes may call
  // it concurrently. `read_time` is the time that the NIC takes to read the message from memory; no byte departs before
  // it has been read. Returns the message's times without waiting and serialization on the links.
  MessageTimes inject_message(int from, std::uint64_t bytes, const ConfigClock& start, const ConfigClock& read_time);
  // Routes an injected message to its destination: adds waiting and serialization on the links and at the receiving NIC
  // to the times in `message_times`. Must be called in the order of `start` of all messages.
  void route_message(int from, int to, std::uint64_t bytes, MessageTimes& message_times);
  // Returns the lookahead of the parallel simulation: a lower bound of the time from `start` to the arrival of any
  // message.
  Ps min_latency() const { return latency_; }
  // Returns the latency of an empty message that waits for no other message.
  Ps latency_over_hops(int hops) const { return latency_ + (hops - 1) * hop_time_; }

  const Topology& topology() const { return *topology_; }
  std::uint64_t num_messages() const { return num_messages_; }
  std::uint64_t total_bytes() const { return total_bytes_; }
  // Returns the serialization time of `bytes` at a bandwidth; 0 GB/s stands for unlimited bandwidth.
  static Ps serialization_time(std::uint64_t bytes, double gb_per_s);

 private:
  // The times at which links become free, per link and variant. Times are allocated in blocks at their first use, since
  // most links of a large network are never used.
  class LinkTimes {
   public:
    LinkTimes(int links, int variants);
    TimeVector* free_times(int link);

   private:
    static constexpr int links_per_block = 64;
    int num_variants_;
    std::vector<std::unique_ptr<TimeVector[]>> blocks_;
  };

  TimeVector* nic_free_times(std::vector<TimeVector>& nics, int node) const {
    return &nics[static_cast<std::size_t>(node * num_variants_)];
  }
  void pass_message(TimeVector* free_times, ConfigClock& first, ConfigClock& last, Ps occupancy_time, Ps gap) const;

  int num_variants_;
  nearfield::Network parameters_;
  double nic_gb_per_s_;
  Ps latency_, hop_time_, message_gap_;
  std::unique_ptr<Topology> topology_;
  std::vector<TimeVector> sender_free_times_,
      receiver_free_times_;  // times at which NICs become free, per node and variant
  LinkTimes link_times_;
  std::vector<int> route_;
  std::uint64_t num_messages_ = 0, total_bytes_ = 0;
};

}  // namespace nearfield::sim

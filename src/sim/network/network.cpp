#include "sim/network/network.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace nearfield::sim {
namespace {

nearfield::Network require_network(const Machine& machine) {
  if (!machine.network) throw std::invalid_argument("machine '" + machine.name + "' has no network: take 1 node");
  if (!machine.nic) throw std::invalid_argument("machine '" + machine.name + "' has no nic: take 1 node");
  return *machine.network;
}

}  // namespace

Ps Network::serialization_time(std::uint64_t bytes, double gb_per_s) {
  return gb_per_s > 0 ? std::nearbyint(static_cast<double>(bytes) * 1e3 / gb_per_s) : 0;
}

Network::LinkTimes::LinkTimes(int links, int variants)
    : num_variants_(variants), blocks_(static_cast<std::size_t>(links / links_per_block + 1)) {}

TimeVector* Network::LinkTimes::free_times(int link) {
  auto& times = blocks_[static_cast<std::size_t>(link / links_per_block)];
  if (!times) times = std::make_unique<TimeVector[]>(static_cast<std::size_t>(links_per_block * num_variants_));
  return &times[static_cast<std::size_t>(link % links_per_block * num_variants_)];
}

Network::Network(const Machine& machine, int nodes, int variants)
    : num_variants_(variants),
      parameters_(require_network(machine)),
      nic_gb_per_s_(machine.nic->gb_per_s),
      latency_(std::max(1.0, ps_from_ns(parameters_.latency_ns))),  // a message never arrives when it is sent
      hop_time_(ps_from_ns(parameters_.hop_ns)),
      message_gap_(ps_from_ns(parameters_.gap_ns)),
      topology_(make_topology(parameters_, nodes)),
      sender_free_times_(static_cast<std::size_t>(nodes * variants)),
      receiver_free_times_(sender_free_times_),
      link_times_(topology_->num_links(), variants) {}

// Passes a message over one link or NIC: waits until it is free, then occupies it until the last byte has passed.
// `free_times` are the times at which the link or NIC becomes free.
void Network::pass_message(TimeVector* free_times, ConfigClock& first, ConfigClock& last, Ps occupancy_time,
                           Ps gap) const {
  for (int v = 0; v < num_variants_; ++v)
    for (int l = 0; l < num_memory_speeds; ++l) {
      Ps& head = first[v][l];
      Ps& tail = last[v][l];
      head = std::max(head, free_times[v][l]);
      tail = std::max(tail, head + occupancy_time);
      free_times[v][l] = std::max(tail, head + gap);
    }
}

MessageTimes Network::inject_message(int from, std::uint64_t bytes, const ConfigClock& start,
                                     const ConfigClock& read_time) {
  MessageTimes message_times{start, start, start, 0};
  ConfigClock &first = message_times.first_byte_arrival, &last = message_times.last_byte_arrival;
  // The message waits for the NIC first, since the NIC reads the message only when it begins to send.
  TimeVector* const sender = nic_free_times(sender_free_times_, from);
  for (int v = 0; v < num_variants_; ++v) first[v] = later(first[v], sender[v]);
  last = first + read_time;
  pass_message(sender, first, last, serialization_time(bytes, nic_gb_per_s_), message_gap_);
  message_times.departure = last;
  first += latency_;
  last += latency_;
  return message_times;
}

void Network::route_message(int from, int to, std::uint64_t bytes, MessageTimes& message_times) {
  if (from == to) throw std::logic_error("a message from a node to itself does not go through the network");
  ++num_messages_;
  total_bytes_ += bytes;
  const Ps link_time = serialization_time(bytes, parameters_.link_gb_per_s);
  ConfigClock &first = message_times.first_byte_arrival, &last = message_times.last_byte_arrival;
  topology_->route(from, to, route_);
  message_times.hops = static_cast<int>(route_.size());
  for (std::size_t i = 0; i < route_.size(); ++i) {
    if (i > 0) first += hop_time_, last += hop_time_;
    pass_message(link_times_.free_times(route_[i]), first, last, link_time, 0);
  }
  pass_message(nic_free_times(receiver_free_times_, to), first, last, serialization_time(bytes, nic_gb_per_s_),
               message_gap_);
}

}  // namespace nearfield::sim

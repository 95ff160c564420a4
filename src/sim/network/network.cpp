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

Ps Network::serialisation_time(std::uint64_t bytes, double gb_per_s) {
  return gb_per_s > 0 ? std::nearbyint(static_cast<double>(bytes) * 1e3 / gb_per_s) : 0;
}

Network::LinkTimes::LinkTimes(int links, int variants)
    : variants_(variants), blocks_(static_cast<std::size_t>(links / block + 1)) {}

TimeVector* Network::LinkTimes::free_times(int link) {
  auto& times = blocks_[static_cast<std::size_t>(link / block)];
  if (!times) times = std::make_unique<TimeVector[]>(static_cast<std::size_t>(block * variants_));
  return &times[static_cast<std::size_t>(link % block * variants_)];
}

Network::Network(const Machine& machine, int nodes, int variants)
    : variants_(variants),
      parameters_(require_network(machine)),
      nic_gb_per_s_(machine.nic->gb_per_s),
      latency_(std::max(1.0, ps_from_ns(parameters_.latency_ns))),  // a message never arrives when it is sent
      hop_(ps_from_ns(parameters_.hop_ns)),
      gap_(ps_from_ns(parameters_.gap_ns)),
      topology_(make_topology(parameters_, nodes)),
      sending_(static_cast<std::size_t>(nodes * variants)),
      receiving_(sending_),
      links_(topology_->num_links(), variants) {}

// Passes a message over one link or NIC: waits until it is free, then occupies it until the last byte has passed.
// `free` are the times at which the link or NIC becomes free.
void Network::pass(TimeVector* free, ConfigClock& first, ConfigClock& last, Ps serial, Ps gap) const {
  for (int v = 0; v < variants_; ++v)
    for (int l = 0; l < num_memory_speeds; ++l) {
      Ps& head = first[v][l];
      Ps& tail = last[v][l];
      head = std::max(head, free[v][l]);
      tail = std::max(tail, head + serial);
      free[v][l] = std::max(tail, head + gap);
    }
}

Passage Network::inject_message(int from, std::uint64_t bytes, const ConfigClock& start, const ConfigClock& feed) {
  Passage passage{start, start, start, 0};
  ConfigClock &first = passage.first, &last = passage.last;
  // The message waits for the NIC first, since the NIC reads the message only when it begins to send.
  TimeVector* const sender = nic_free_times(sending_, from);
  for (int v = 0; v < variants_; ++v) first[v] = later(first[v], sender[v]);
  last = first + feed;
  pass(sender, first, last, serialisation_time(bytes, nic_gb_per_s_), gap_);
  passage.left = last;
  first += latency_;
  last += latency_;
  return passage;
}

void Network::route_message(int from, int to, std::uint64_t bytes, Passage& passage) {
  if (from == to) throw std::logic_error("a message from a node to itself does not go through the network");
  ++messages_;
  bytes_ += bytes;
  const Ps on_link = serialisation_time(bytes, parameters_.link_gb_per_s);
  ConfigClock &first = passage.first, &last = passage.last;
  topology_->route(from, to, route_);
  passage.hops = static_cast<int>(route_.size());
  for (std::size_t i = 0; i < route_.size(); ++i) {
    if (i > 0) first += hop_, last += hop_;
    pass(links_.free_times(route_[i]), first, last, on_link, 0);
  }
  pass(nic_free_times(receiving_, to), first, last, serialisation_time(bytes, nic_gb_per_s_), gap_);
}

}  // namespace nearfield::sim

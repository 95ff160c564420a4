// The parts that all ranks of a run share: the engine, the network, the protocols, and the pools of current objects.
// cluster.hpp builds it.
#pragma once

#include <coroutine>
#include <memory>
#include <utility>
#include <vector>

#include "machine/machine.hpp"
#include "sim/engine/engine.hpp"
#include "sim/message.hpp"
#include "sim/network/network.hpp"
#include "sim/pool.hpp"
#include "sim/protocol.hpp"
#include "sim/shipping.hpp"

namespace nearfield::sim {

// The ranks that wait for all others to come to the same point.
struct LineUp {
  std::vector<std::pair<Endpoint*, std::coroutine_handle<>>> waiting;
  Clock latest;
};

struct World {
  Machine machine;
  int variants = 1;
  bool count_marks = false;
  bool count_sides = false;
  Engine engine;
  std::unique_ptr<Network> network;  // none with one node
  std::vector<std::unique_ptr<Endpoint>> ranks;
  std::unique_ptr<Protocol> node_small, node_large, network_small, network_large;
  Pool<Message> messages;
  Pool<Operation> operations;
  Pool<Item> items;
  Shipping shipping{*this};
  LineUp line_up;

  // A synchronous message goes by the protocol of long ones, which ask the receiver first (the T3E's buffered does not).
  Protocol& protocol(bool within_node, std::uint64_t bytes, bool synchronous) {
    const auto most = within_node ? machine.messaging.node_eager_bytes : machine.messaging.eager_bytes;
    const bool small = bytes <= most && !synchronous;
    return within_node ? (small ? *node_small : *node_large) : (small ? *network_small : *network_large);
  }
  // Drops the message on one side; the second drop frees it.
  void drop(Message& message) {
    if (--message.holders == 0) messages.give(&message);
  }
};

}  // namespace nearfield::sim

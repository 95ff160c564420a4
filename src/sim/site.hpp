// The state that the ranks of one node share: the engine of what happens there, the protocols, and the pools of current
// objects.
// One thread at a time works on a site. What goes to other nodes waits in it for the end of the window (windows.hpp).
#pragma once

#include <coroutine>
#include <memory>
#include <utility>
#include <vector>

#include "sim/engine/engine.hpp"
#include "sim/engine/frames.hpp"
#include "sim/message.hpp"
#include "sim/pool.hpp"
#include "sim/protocol.hpp"
#include "sim/shipping.hpp"
#include "sim/world.hpp"

namespace nearfield::sim {

struct Site {
  World& world;
  int number;  // of the node
  Engine engine;
  std::unique_ptr<Protocol> node_small, node_large, network_small, network_large;
  Pool<Message> messages;
  Pool<Operation> operations;
  Pool<Item> items;
  Shipping shipping{*this};
  std::vector<std::pair<Endpoint*, std::coroutine_handle<>>> lined_up;  // ranks that wait for all others to come there
  CoroutineFrames frames;

  Site(World& all, int node) : world(all), number(node) {}

  // A synchronous message goes by the protocol of long ones, which ask the receiver first (the T3E's buffered does not).
  Protocol& protocol(bool within_node, std::uint64_t bytes, bool synchronous) {
    const Messaging& messaging = world.machine.messaging;
    const auto most = within_node ? messaging.node_eager_bytes : messaging.eager_bytes;
    const bool small = bytes <= most && !synchronous;
    return within_node ? (small ? *node_small : *node_large) : (small ? *network_small : *network_large);
  }
  // Drops the message on one side; the last drop frees it.
  void drop(Message& message) {
    if (--message.holders == 0) messages.give(&message);
  }
  // Runs what happens before `end`. What fails is kept (Engine::failure).
  void run_until(Ps end) {
    const CoroutineFrames::Use use(frames);
    try {
      engine.run_until(end);
    } catch (...) {
      engine.fail(std::current_exception());
    }
  }
};

}  // namespace nearfield::sim

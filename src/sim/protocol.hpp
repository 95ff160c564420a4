// Protocols of messages. Each file in protocols/ exports one ProtocolSpec. One object serves all ranks
// of a node. What it does on a rank's core takes that rank's time; the steps of a message are called on the side they
// say, in the order of events.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/registry.hpp"
#include "sim/engine/task.hpp"
#include "sim/message.hpp"

namespace nearfield::sim {

struct Site;

// The place where the NIC may write a message that arrives, and the time from which on it may.
struct Landing {
  Address address = 0;
  Clock start;
};

class Protocol {
 public:
  virtual ~Protocol() = default;
  // Is called on the sender's core, in send(). Data in blocks is not packed.
  virtual void start(Endpoint& sender, Message& message) = 0;
  // Is called on the receiver's core, in wait(): the message has arrived (Step::arrived) and has a receive now.
  virtual Task<> matched(Endpoint& receiver, Message& message) = 0;
  // Is called on either core, in wait(), for any other step.
  virtual Task<> step(Endpoint& rank, Message& message, const Item& item);
  // Is called at the sender's NIC when everything of this shipment has been read.
  virtual void left(Shipment&) {}
  // Is called at the receiver's NIC for a shipment to place on arrival. Nothing: it is kept there (Message::kept).
  virtual std::optional<Landing> place(Endpoint& receiver, Message& message, Shipment& shipment);
  // Is called on the receiver's core, in receive(), for a message that came before its receive.
  virtual void posted(Endpoint& receiver, Message& message);
  // Returns whether the NIC learns of receives when they are posted.
  virtual bool matches_at_nic() const { return false; }
};

struct ProtocolSpec {
  const char* name;
  const char* summary;
  bool within_node;
  std::unique_ptr<Protocol> (*make)(Site& site);
};

extern const ProtocolSpec eager_protocol, rendezvous_protocol, buffered_protocol, synchronous_protocol,
    node_eager_protocol;

const std::vector<const ProtocolSpec*>& all_protocols();

// A value of Messaging::network or ::node: one protocol up to the eager limit and one beyond. Between nodes every
// protocol can be named for both, and two pairs have their own names; within a node, short messages are always eager.
struct Pairing {
  std::string name;
  const ProtocolSpec* small;
  const ProtocolSpec* large;
};
std::vector<Pairing> all_pairings(bool within_node);
// Returns the pairing of that name. Throws std::invalid_argument that names the nearest one.
Pairing find_pairing(const std::string& name, bool within_node);

}  // namespace nearfield::sim

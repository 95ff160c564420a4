// How messages cross. One file per protocol in protocols/, each exporting one ProtocolSpec. One object serves all ranks
// of a run. What it does on a rank's core takes that rank's time; the steps of a message are called on the side they
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

struct World;

// Where the NIC may write a message that arrives, and since when.
struct Landing {
  Address address = 0;
  Clock start;
};

class Protocol {
 public:
  virtual ~Protocol() = default;
  // On the sender's core, in send(). Data in blocks is there as such.
  virtual void start(Endpoint& sender, Message& message) = 0;
  // On the receiver's core, in wait(): the message has arrived (Step::arrived) and has a receive now.
  virtual Task<> matched(Endpoint& receiver, Message& message) = 0;
  // On either core, in wait(): any other step.
  virtual Task<> step(Endpoint& rank, Message& message, const Item& item);
  // At the sender's NIC: everything of this shipment has been read.
  virtual void left(Shipment&) {}
  // At the receiver's NIC, if the shipment was to be placed on arrival. Nothing: it is kept there (Message::kept).
  virtual std::optional<Landing> place(Endpoint& receiver, Message& message, Shipment& shipment);
  // On the receiver's core, in receive(): a message that came before its receive has got one.
  virtual void posted(Endpoint& receiver, Message& message);
  // Whether receives are told to the NIC when they are posted.
  virtual bool matches_at_nic() const { return false; }
};

struct ProtocolSpec {
  const char* name;
  const char* summary;
  bool within_node;
  std::unique_ptr<Protocol> (*make)(World& world);
};

extern const ProtocolSpec eager_protocol, rendezvous_protocol, buffered_protocol, synchronous_protocol,
    node_eager_protocol;

const std::vector<const ProtocolSpec*>& all_protocols();

// What Messaging::network and ::node name: one protocol up to the eager limit and one beyond. Between nodes every
// protocol can be named for both, and two pairs have names of their own; within a node, short messages are always eager.
struct Pairing {
  std::string name;
  const ProtocolSpec* small;
  const ProtocolSpec* large;
};
std::vector<Pairing> all_pairings(bool within_node);
// std::invalid_argument naming the nearest one.
Pairing find_pairing(const std::string& name, bool within_node);

}  // namespace nearfield::sim

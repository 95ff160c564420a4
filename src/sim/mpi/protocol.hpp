// Message protocols. Each file in protocols/ exports one ProtocolSpec. One object serves all ranks of a node. Its work
// on a rank's core takes that rank's time. The functions of a message are called on the stated side, in the order of
// events.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/registry.hpp"
#include "sim/engine/task.hpp"
#include "sim/mpi/message.hpp"

namespace nearfield::sim {

struct NodeState;

// Where the NIC may write an arriving message, and from which time on.
struct Landing {
  Address address = 0;
  ConfigClock start;
};

class Protocol {
 public:
  virtual ~Protocol() = default;
  // Is called on the sender's core, in send(). Data in blocks is not packed.
  virtual void start(Endpoint& sender, Message& message) = 0;
  // Is called on the receiver's core, in wait(): the message has arrived (PacketKind::arrived) and is matched.
  virtual Task<> matched(Endpoint& receiver, Message& message) = 0;
  // Is called on either core, in wait(), for any other packet.
  virtual Task<> handle(Endpoint& rank, Message& message, const ProtocolPacket& packet);
  // Is called at the sender's NIC when the whole payload of this transfer has been read.
  virtual void left(NicTransfer&) {}
  // Is called at the receiver's NIC for a transfer that is `placed`. Returns its target; nullopt: the NIC holds it
  // (Message::held).
  virtual std::optional<Landing> place(Endpoint& receiver, Message& message, NicTransfer& transfer);
  // Is called on the receiver's core, in receive(), when the receive matches an unexpected message.
  virtual void posted(Endpoint& receiver, Message& message);
  // Returns whether receives are posted to the NIC, which matches.
  virtual bool matches_at_nic() const { return false; }
};

struct ProtocolSpec {
  const char* name;
  const char* summary;
  bool within_node;
  std::unique_ptr<Protocol> (*make)(NodeState& node_state);
};

extern const ProtocolSpec eager_protocol, rendezvous_protocol, buffered_protocol, synchronous_protocol,
    node_eager_protocol;

const std::vector<const ProtocolSpec*>& all_protocols();

// A value of Messaging::network or ::node: one protocol up to the eager limit and one above it. Between nodes every
// protocol can be named for both sizes, and two pairs have names of their own; within a node, short messages are always
// eager.
struct ProtocolPair {
  std::string name;
  const ProtocolSpec* small;
  const ProtocolSpec* large;
};
std::vector<ProtocolPair> all_protocol_pairs(bool within_node);
// Returns the pair of that name. Throws std::invalid_argument that names the nearest one.
ProtocolPair find_protocol_pair(const std::string& name, bool within_node);

}  // namespace nearfield::sim

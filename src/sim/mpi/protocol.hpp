// Message protocols. Each file in protocols/ exports one ProtocolSpec. One Protocol object serves all ranks of a node.
// Its work on a rank's core advances the clock of that rank. Its functions are called in the order of simulated time;
// the comment of each function says on which core or NIC it runs.
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
struct PayloadTarget {
  Address address = 0;
  ConfigClock start;
};

class Protocol {
 public:
  virtual ~Protocol() = default;
  // Is called on the sender's core, in send(). Non-contiguous data has not been packed.
  virtual void start_send(Endpoint& sender, Message& message) = 0;
  // Is called on the receiver's core, in wait(): the message has arrived (PacketKind::arrived) and is matched.
  virtual Task<> handle_match(Endpoint& receiver, Message& message) = 0;
  // Is called on the core of the sender or the receiver, in wait(), for every other packet.
  virtual Task<> handle_packet(Endpoint& rank, Message& message, const ProtocolPacket& packet);
  // Is called at the sender's NIC when the whole payload of this transfer has been read.
  virtual void handle_payload_read(NicTransfer&) {}
  // Is called at the receiver's NIC for a transfer with `placed`. Returns where to write the payload; nullopt: the NIC
  // holds the transfer (Message::held).
  virtual std::optional<PayloadTarget> choose_payload_target(Endpoint& receiver, Message& message,
                                                             NicTransfer& transfer);
  // Is called on the receiver's core, in receive(), when the receive matches an unexpected message.
  virtual void handle_posted_receive(Endpoint& receiver, Message& message);
  // Returns whether a message's data lies in memory of the library, or of the NIC, from the message's arrival on.
  virtual bool arrives_with_data() const { return false; }
  // Returns whether receives are posted to the NIC, which then matches messages.
  virtual bool matches_at_nic() const { return false; }
};

struct ProtocolSpec {
  const char* name;
  const char* summary;
  bool is_within_node;
  std::unique_ptr<Protocol> (*make)(NodeState& node_state);
};

extern const ProtocolSpec eager_protocol, rendezvous_protocol, buffered_protocol, synchronous_protocol,
    node_eager_protocol;

const std::vector<const ProtocolSpec*>& all_protocols();

// The protocols that a value of Messaging::network or Messaging::node selects: one for messages up to the eager limit
// and one for longer messages. Between nodes, the name of a protocol selects it for both, and two pairs of different
// protocols have names; within a node, short messages are always sent eagerly.
struct ProtocolPair {
  std::string name;
  const ProtocolSpec* small;
  const ProtocolSpec* large;
};
std::vector<ProtocolPair> all_protocol_pairs(bool is_within_node);
// Returns the pair of that name. If there is none, throws std::invalid_argument, which names the nearest one.
ProtocolPair find_protocol_pair(const std::string& name, bool is_within_node);

}  // namespace nearfield::sim

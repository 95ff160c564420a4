// Within a node, up to the eager limit: the sender's core copies the message into a buffer in shared memory and
// notifies the receiver, whose core copies the message out when it is matched. The buffers belong to the sender and are
// reused last in, first out. A message of up to Messaging::inline_bytes is stored in the line that the receiver reads
// anyway. A send of more than Messaging::unattended_bytes completes when the receiver has returned the buffer.
#include "machine/machine.hpp"
#include "sim/mpi/endpoint.hpp"

namespace nearfield::sim {
namespace {

class NodeEagerProtocol final : public Protocol {
 public:
  bool arrives_with_data() const override { return true; }

  void start_send(Endpoint& sender, Message& message) override {
    if (is_inline(sender, message)) {
      sender.node().touch(sender.core(), Access::load, message.data, 0, message.bytes);
    } else if (message.bytes > 0) {
      message.send_staging = sender.scratch_pool().acquire(message.bytes);
      sender.copy_now(Buffer(message.send_staging, message.bytes), message.data, message.bytes);
    }
    sender.notify_peer(*message.to, sender.make_packet(message, PacketKind::arrived));
    if (!is_attended(sender, message)) sender.complete_message(message, message.send);
  }

  Task<> handle_match(Endpoint& receiver, Message& message) override {
    if (is_inline(receiver, message)) {
      receiver.node().touch(receiver.core(), Access::store, message.receive->buffer, 0, message.bytes);
      receiver.complete_message(message, message.receive);
      co_return;
    }
    co_await receiver.copy(message.receive->buffer, 0, Buffer(message.send_staging, message.bytes), 0, message.bytes);
    if (message.bytes > 0) message.from->scratch_pool().release(message.send_staging, message.bytes);
    if (is_attended(receiver, message))
      receiver.notify_peer(*message.from, receiver.make_packet(message, PacketKind::received));
    receiver.complete_message(message, message.receive);
  }

  Task<> handle_packet(Endpoint& sender, Message& message, const ProtocolPacket&) override {
    sender.complete_message(message, message.send);
    co_return;
  }

 private:
  static bool is_attended(Endpoint& rank, const Message& message) {
    return message.bytes > rank.messaging().unattended_bytes && !is_inline(rank, message);
  }
  static bool is_inline(Endpoint& rank, const Message& message) {
    return message.bytes > 0 && message.bytes <= rank.messaging().inline_bytes;
  }
};

}  // namespace

const ProtocolSpec node_eager_protocol{"node-eager", "through a buffer in shared memory, without a handshake", true,
                                       make_implementation<Protocol, NodeEagerProtocol>};

}  // namespace nearfield::sim

// Within a node, up to its eager limit: the sender's core copies into a buffer in shared memory and notifies the
// receiver, whose core copies it out when the message is matched. The buffers are the sender's, reused last in, first
// out. A message of up to Messaging::inline_bytes is in the line that the receiver reads anyway. The send of one that is
// longer than Messaging::unattended_bytes ends when the receiver has returned the buffer.
#include "machine/machine.hpp"
#include "sim/mpi/endpoint.hpp"

namespace nearfield::sim {
namespace {

class NodeEager final : public Protocol {
 public:
  void start(Endpoint& sender, Message& message) override {
    if (is_inline(sender, message)) {
      sender.node().touch(sender.core(), Access::load, message.data, 0, message.bytes);
    } else if (message.bytes > 0) {
      message.staged_out = sender.scratch().acquire(message.bytes);
      sender.copy_now(Buffer(message.staged_out, message.bytes), message.data, message.bytes);
    }
    sender.notify_peer(*message.to, sender.make_packet(message, PacketKind::arrived));
    if (!is_attended(sender, message)) sender.finish(message, message.send);
  }

  Task<> matched(Endpoint& receiver, Message& message) override {
    if (is_inline(receiver, message)) {
      receiver.node().touch(receiver.core(), Access::store, message.receive->buffer, 0, message.bytes);
      receiver.finish(message, message.receive);
      co_return;
    }
    co_await receiver.copy(message.receive->buffer, 0, Buffer(message.staged_out, message.bytes), 0, message.bytes);
    if (message.bytes > 0) message.from->scratch().release(message.staged_out, message.bytes);
    if (is_attended(receiver, message))
      receiver.notify_peer(*message.from, receiver.make_packet(message, PacketKind::taken));
    receiver.finish(message, message.receive);
  }

  Task<> handle(Endpoint& sender, Message& message, const ProtocolPacket&) override {
    sender.finish(message, message.send);
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
                                       make_variant<Protocol, NodeEager>};

}  // namespace nearfield::sim

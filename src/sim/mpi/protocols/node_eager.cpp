// Within a node, up to its eager limit: the sender's core copies into a buffer in shared memory and notifies the
// receiver, whose core copies it out when the message is matched. The buffers are the sender's, reused last in, first
// out.
#include "sim/mpi/endpoint.hpp"

namespace nearfield::sim {
namespace {

class NodeEager final : public Protocol {
 public:
  void start(Endpoint& sender, Message& message) override {
    if (message.bytes > 0) {
      message.staged_out = sender.scratch().acquire(message.bytes);
      sender.copy_now(Buffer(message.staged_out, message.bytes), message.data, message.bytes);
    }
    sender.notify_peer(*message.to, sender.make_packet(message, PacketKind::arrived));
    sender.finish(message, message.send);
  }

  Task<> matched(Endpoint& receiver, Message& message) override {
    co_await receiver.copy(message.receive->buffer, 0, Buffer(message.staged_out, message.bytes), 0, message.bytes);
    if (message.bytes > 0) message.from->scratch().release(message.staged_out, message.bytes);
    receiver.finish(message, message.receive);
  }
};

}  // namespace

const ProtocolSpec node_eager_protocol{"node-eager", "through a buffer in shared memory, without a handshake", true,
                                       make_variant<Protocol, NodeEager>};

}  // namespace nearfield::sim

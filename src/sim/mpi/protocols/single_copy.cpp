// Within a node, by the kernel (S0: KNEM): the sender announces the address of its data. When the message is matched,
// the receiver's core enters the kernel, copies from the sender's buffer into its own, and notifies the sender. Left
// out: pinning of pages.
#include "sim/mpi/endpoint.hpp"

namespace nearfield::sim {
namespace {

class SingleCopy final : public Protocol {
 public:
  void start(Endpoint& sender, Message& message) override {
    sender.notify_peer(*message.to, sender.make_packet(message, PacketKind::arrived));
  }

  Task<> matched(Endpoint& receiver, Message& message) override {
    receiver.advance(ps_from_ns(receiver.messaging().system_call_ns));
    co_await receiver.copy(message.receive->buffer, 0, message.data, 0, message.bytes);
    receiver.notify_peer(*message.from, receiver.make_packet(message, PacketKind::taken));
    receiver.finish(message, message.receive);
  }

  Task<> handle(Endpoint& sender, Message& message, const ProtocolPacket&) override {
    sender.finish(message, message.send);
    co_return;
  }
};

}  // namespace

extern const ProtocolSpec single_copy_protocol;
const ProtocolSpec single_copy_protocol{"single-copy", "the receiver's core copies from the sender's memory", true,
                                        make_variant<Protocol, SingleCopy>};

}  // namespace nearfield::sim

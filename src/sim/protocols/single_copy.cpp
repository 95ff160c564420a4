// Within a node, by the kernel (S0: KNEM): the sender tells where its data is; when there is a receive, the receiver's
// core enters the kernel and copies from the sender's buffer into its own, then tells the sender. Left out: pinning of
// pages.
#include "sim/endpoint.hpp"

namespace nearfield::sim {
namespace {

class SingleCopy final : public Protocol {
 public:
  void start(Endpoint& sender, Message& message) override {
    sender.tell(*message.to, sender.make_item(message, Step::arrived));
  }

  Task<> matched(Endpoint& receiver, Message& message) override {
    receiver.advance(ps_from_ns(receiver.messaging().system_call_ns));
    co_await receiver.copy(message.receive->buffer, 0, message.data, 0, message.bytes);
    receiver.tell(*message.from, receiver.make_item(message, Step::taken));
    receiver.finish(message, message.receive);
  }

  Task<> step(Endpoint& sender, Message& message, const Item&) override {
    sender.finish(message, message.send);
    co_return;
  }
};

}  // namespace

extern const ProtocolSpec single_copy_protocol;
const ProtocolSpec single_copy_protocol{"single-copy", "the receiver's core copies from the sender's memory", true,
                                        made<Protocol, SingleCopy>};

}  // namespace nearfield::sim

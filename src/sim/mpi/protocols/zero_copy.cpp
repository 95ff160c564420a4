// S4's MPI-MIAMI: OS bypass and zero copy for every size. The NIC reads the sender's buffer. The receiver's NIC
// matches: it writes the payload into the receiver's buffer if the receive is posted, and holds it until then
// otherwise; after the payload it writes an event. Non-contiguous data is packed first and unpacked at the end. Left
// out: the limited memory of a NIC.
#include "sim/mpi/endpoint.hpp"

namespace nearfield::sim {
namespace {

class ZeroCopy final : public Protocol {
 public:
  void start(Endpoint& sender, Message& message) override {
    const Address source = sender.pack_buffer(message);
    NicTransfer transfer = sender.transfer(message);
    transfer.source = source;
    transfer.bytes = message.bytes;
    transfer.placed = true;
    transfer.arrival = PacketKind::data;
    transfer.departure = PacketKind::sent;
    sender.node_state().transfers.send(transfer);
  }

  bool matches_at_nic() const override { return true; }

  // A rank that is ahead of the engine may have posted a receive in the engine's future: the NIC then holds the
  // payload.
  std::optional<Landing> place(Endpoint& receiver, Message& message, NicTransfer& transfer) override {
    message.receive = receiver.match(message, transfer.first);
    if (!message.receive) return {};
    const ConfigClock& since = message.receive->posted;
    if (since.first() > receiver.node_state().engine.now()) {
      write_later(receiver, message);
      return {};
    }
    return Landing{receiver.landing_buffer(*message.receive, message.bytes), later(transfer.first, since)};
  }

  void posted(Endpoint& receiver, Message& message) override { write_later(receiver, message); }

  Task<> matched(Endpoint&, Message&) override { co_return; }  // the NIC has matched it

  Task<> handle(Endpoint& rank, Message& message, const ProtocolPacket& packet) override {
    if (packet.kind == PacketKind::sent) {
      rank.release_pack_buffer(message);
      rank.finish(message, message.send);
    } else {
      rank.advance(ps_from_ns(rank.messaging().match_ns));
      co_await rank.unpack(*message.receive, message.bytes);
      rank.finish(message, message.receive);
    }
  }

 private:
  // Writes the held payload at the time at which the receive is posted.
  static void write_later(Endpoint& receiver, Message& message) {
    const auto act = [](void* what) {
      auto& message = *static_cast<Message*>(what);
      message.to->node_state().transfers.write_held(
          *message.held, message.to->landing_buffer(*message.receive, message.bytes), message.receive->posted);
    };
    receiver.node_state().engine.schedule(message.receive->posted.first(), act, &message);
  }
};

}  // namespace

extern const ProtocolSpec zero_copy_protocol;
const ProtocolSpec zero_copy_protocol{"zero-copy", "NIC to NIC, user memory to user memory, matched by the NIC", false,
                                      make_variant<Protocol, ZeroCopy>};

}  // namespace nearfield::sim

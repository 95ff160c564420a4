// MPI-MIAMI of paper S4 (papers/S4/README.md): OS bypass and zero copy for every message size. The NIC reads the
// sender's buffer. The receiver's NIC matches messages: if the receive is posted, it writes the payload into the
// receiver's buffer; otherwise it holds the payload until the receive is posted. After the payload, the NIC writes an
// event. Non-contiguous data is packed first and unpacked at the end. Not modeled: the limited memory of a NIC.
#include "sim/mpi/endpoint.hpp"

namespace nearfield::sim {
namespace {

class ZeroCopyProtocol final : public Protocol {
 public:
  void start_send(Endpoint& sender, Message& message) override {
    const Address source = sender.acquire_pack_buffer(message);
    NicTransfer transfer = sender.post_command(message);
    transfer.source = source;
    transfer.bytes = message.bytes;
    transfer.is_placed_on_arrival = true;
    transfer.arrival_packet = PacketKind::data;
    transfer.departure_packet = PacketKind::sent;
    sender.node_state().transfers.send(transfer);
  }

  bool matches_at_nic() const override { return true; }

  // If the receiver, whose clock may be ahead of the engine, has posted the receive in the engine's future, the NIC
  // holds the payload until then.
  std::optional<PayloadTarget> choose_payload_target(Endpoint& receiver, Message& message,
                                                     NicTransfer& transfer) override {
    message.receive = receiver.match_arrival(message, transfer.first_byte_arrival);
    if (!message.receive) return {};
    const ConfigClock& post_time = message.receive->post_time;
    if (post_time.first() > receiver.node_state().engine.now()) {
      schedule_held_write(receiver, message);
      return {};
    }
    return PayloadTarget{receiver.acquire_landing_buffer(*message.receive, message.bytes),
                         later(transfer.first_byte_arrival, post_time)};
  }

  void handle_posted_receive(Endpoint& receiver, Message& message) override { schedule_held_write(receiver, message); }

  Task<> handle_match(Endpoint&, Message&) override { co_return; }  // the NIC has matched the message

  Task<> handle_packet(Endpoint& rank, Message& message, const ProtocolPacket& packet) override {
    if (packet.kind == PacketKind::sent) {
      rank.release_pack_buffer(message);
      rank.complete_message(message, message.send);
    } else {
      rank.advance_clock(ps_from_ns(rank.messaging().match_ns));
      co_await rank.unpack_landing_buffer(*message.receive, message.bytes);
      rank.complete_message(message, message.receive);
    }
  }

 private:
  // Writes the held payload at the time at which the receive is posted.
  static void schedule_held_write(Endpoint& receiver, Message& message) {
    const auto write_payload = [](void* argument) {
      auto& message = *static_cast<Message*>(argument);
      message.to->node_state().transfers.write_held(*message.held_transfer,
                                                    message.to->acquire_landing_buffer(*message.receive, message.bytes),
                                                    message.receive->post_time);
    };
    receiver.node_state().engine.schedule(message.receive->post_time.first(), write_payload, &message);
  }
};

}  // namespace

extern const ProtocolSpec zero_copy_protocol;
const ProtocolSpec zero_copy_protocol{"zero-copy", "NIC to NIC, user memory to user memory, matched by the NIC", false,
                                      make_implementation<Protocol, ZeroCopyProtocol>};

}  // namespace nearfield::sim

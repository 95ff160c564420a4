// The synchronous mode of the T3E in paper S3 (papers/S3/README.md): when the message is matched, data goes from memory
// to memory through E-registers, bypassing the caches, element by element if the data is strided. The sender's core
// loads a block of registers and sends it; the block is stored at the receiver. Simplified: the receiver's core, which
// waits anyway, stores the block; on a T3E the memory is written without the core.
#include <algorithm>

#include "sim/mpi/endpoint.hpp"

namespace nearfield::sim {
namespace {

constexpr std::uint64_t block_bytes = 512 * 8;  // paper S3, section 3: users have 512 E-registers

class SynchronousProtocol final : public Protocol {
 public:
  void start_send(Endpoint& sender, Message& message) override {
    send_control_message(sender, message, PacketKind::arrived);
  }

  Task<> handle_match(Endpoint& receiver, Message& message) override {
    send_control_message(receiver, message, PacketKind::clear_to_send);
    co_return;
  }

  // Drops the sender's reference to the message when the last block has departed.
  void handle_payload_read(NicTransfer& transfer) override {
    if (transfer.arrival_packet == PacketKind::data &&
        transfer.part_offset + transfer.part_bytes == transfer.message->bytes)
      transfer.from->node_state().drop_reference(*transfer.message);
  }

  Task<> handle_packet(Endpoint& rank, Message& message, const ProtocolPacket& packet) override {
    if (packet.kind == PacketKind::clear_to_send)
      co_await send_blocks(rank, message);
    else
      store_block(rank, message, packet);
  }

 private:
  static void send_control_message(Endpoint& from, Message& message, PacketKind kind) {
    NicTransfer transfer = from.post_command(message);
    transfer.arrival_packet = kind;
    from.node_state().transfers.send(transfer);
  }

  static Task<> send_blocks(Endpoint& sender, Message& message) {
    do {
      NicTransfer block;
      block.message = &message;
      block.from = &sender;
      block.to = message.to;
      block.arrival_packet = PacketKind::data;
      block.is_silent = true;
      block.part_offset = message.sent_bytes;
      block.part_bytes = block.bytes = std::min(block_bytes, message.bytes - message.sent_bytes);
      sender.node().touch(sender.core(), Access::load_nontemporal, message.data, message.sent_bytes, block.bytes);
      sender.node().drain(sender.core());
      message.sent_bytes += block.bytes;
      sender.node_state().transfers.send(block);
      co_await sender.sync_with_engine();
    } while (message.sent_bytes < message.bytes);
    sender.complete_request(message.send);
  }

  static void store_block(Endpoint& receiver, Message& message, const ProtocolPacket& packet) {
    receiver.node().touch(receiver.core(), Access::store_nontemporal, message.receive->buffer, packet.offset,
                          packet.bytes);
    message.received_bytes += packet.bytes;
    if (message.received_bytes < message.bytes) return;
    receiver.node().drain(receiver.core());
    receiver.complete_message(message, message.receive);
  }
};

}  // namespace

const ProtocolSpec synchronous_protocol{"synchronous", "memory to memory past the caches, when both are there (T3E)",
                                        false, make_implementation<Protocol, SynchronousProtocol>};

}  // namespace nearfield::sim

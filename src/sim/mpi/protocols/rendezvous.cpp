// Between nodes, above the eager limit, as in paper S0 (papers/S0/README.md), section II.D: the sender sends an RTS
// (ready to send). When it is matched, data goes from user memory to user memory by RDMA, in pieces: the receiver
// registers a piece of its buffer and sends a CTS (clear to send), and the sender registers and sends its piece, so
// that registration overlaps with the transfer of the previous piece. Non-contiguous data is packed first, and unpacked
// at the end. Not modeled: a registration cache, data in the RTS.
#include <algorithm>

#include "sim/mpi/endpoint.hpp"

namespace nearfield::sim {
namespace {

constexpr std::uint64_t piece_bytes = 256 * 1024;  // min_rdma_pipeline_size of Open MPI's openib

class RendezvousProtocol final : public Protocol {
 public:
  void start_send(Endpoint& sender, Message& message) override {
    message.data.address = sender.acquire_pack_buffer(message);
    NicTransfer rts = sender.post_command(message);
    rts.arrival_packet = PacketKind::arrived;
    sender.node_state().transfers.send(rts);
  }

  Task<> handle_match(Endpoint& receiver, Message& message) override {
    message.receive_staging = receiver.acquire_landing_buffer(*message.receive, message.bytes);
    std::uint64_t offset = 0;
    do {
      const std::uint64_t piece = std::min(piece_bytes, message.bytes - offset);
      register_pages(receiver, message.receive_staging + offset, piece);
      NicTransfer cts = receiver.post_command(message);
      cts.arrival_packet = PacketKind::clear_to_send;
      cts.part_offset = offset;
      cts.part_bytes = piece;
      cts.part_target = message.receive_staging + offset;
      receiver.node_state().transfers.send(cts);
      co_await receiver.sync_with_engine();
      offset += piece;
    } while (offset < message.bytes);
  }

  Task<> handle_packet(Endpoint& rank, Message& message, const ProtocolPacket& packet) override {
    if (packet.kind == PacketKind::clear_to_send) {
      send_piece(rank, message, packet);
    } else if (packet.kind == PacketKind::sent) {
      rank.release_pack_buffer(message);
      rank.complete_message(message, message.send);
    } else {
      co_await rank.unpack_landing_buffer(*message.receive, message.bytes);
      rank.complete_message(message, message.receive);
    }
  }

 private:
  static void send_piece(Endpoint& sender, Message& message, const ProtocolPacket& packet) {
    register_pages(sender, message.data.address + packet.offset, packet.bytes);
    NicTransfer piece = sender.post_command(message);
    piece.source = message.data.address + packet.offset;
    piece.bytes = packet.bytes;
    piece.target = packet.target;
    if (packet.offset + packet.bytes == message.bytes) {
      piece.arrival_packet = PacketKind::data;
      piece.departure_packet = PacketKind::sent;
    }
    sender.node_state().transfers.send(piece);
  }

  static void register_pages(Endpoint& rank, Address address, std::uint64_t bytes) {
    if (bytes == 0) return;
    const std::uint64_t page = rank.node().page_bytes();
    const std::uint64_t pages = (address + bytes - 1) / page - address / page + 1;
    rank.advance_clock(ps_from_ns(static_cast<double>(pages) * rank.messaging().register_ns));
  }
};

}  // namespace

const ProtocolSpec rendezvous_protocol{"rendezvous", "RTS and CTS, then RDMA from user memory to user memory", false,
                                       make_implementation<Protocol, RendezvousProtocol>};

}  // namespace nearfield::sim

// Between nodes, beyond the eager limit (S0, section II.D): the sender asks (RTS), and when there is a receive, data
// goes from user memory to user memory by RDMA, in pieces: the receiver registers a piece and allows it (CTS), the
// sender registers and sends it, so that registering is hidden behind the transfer of the piece before. Data in blocks
// is packed into one piece first, and unpacked at the end. Left out: caches of registered memory, a first part that
// goes with the RTS.
#include <algorithm>

#include "sim/endpoint.hpp"

namespace nearfield::sim {
namespace {

constexpr std::uint64_t piece_bytes = 256 * 1024;  // Open MPI's openib: min_rdma_pipeline_size

class Rendezvous final : public Protocol {
 public:
  void start(Endpoint& sender, Message& message) override {
    message.data.address = sender.packed(message);
    Shipment ask = sender.shipment(message);
    ask.arrival = Step::arrived;
    sender.site().shipping.send(ask);
  }

  Task<> matched(Endpoint& receiver, Message& message) override {
    message.staged_in = receiver.landing(*message.receive, message.bytes);
    std::uint64_t offset = 0;
    do {
      const std::uint64_t piece = std::min(piece_bytes, message.bytes - offset);
      register_pages(receiver, message.staged_in + offset, piece);
      Shipment allow = receiver.shipment(message);
      allow.arrival = Step::clear_to_send;
      allow.part_offset = offset;
      allow.part_bytes = piece;
      allow.part_target = message.staged_in + offset;
      receiver.site().shipping.send(allow);
      co_await receiver.settle();
      offset += piece;
    } while (offset < message.bytes);
  }

  Task<> step(Endpoint& rank, Message& message, const Item& item) override {
    if (item.step == Step::clear_to_send) {
      send_piece(rank, message, item);
    } else if (item.step == Step::sent) {
      rank.give_packed(message);
      rank.finish(message, message.send);
    } else {
      co_await rank.unpack(*message.receive, message.bytes);
      rank.finish(message, message.receive);
    }
  }

 private:
  static void send_piece(Endpoint& sender, Message& message, const Item& item) {
    register_pages(sender, message.data.address + item.offset, item.bytes);
    Shipment piece = sender.shipment(message);
    piece.source = message.data.address + item.offset;
    piece.bytes = item.bytes;
    piece.target = item.target;
    if (item.offset + item.bytes == message.bytes) {
      piece.arrival = Step::data;
      piece.departure = Step::sent;
    }
    sender.site().shipping.send(piece);
  }

  static void register_pages(Endpoint& rank, Address address, std::uint64_t bytes) {
    if (bytes == 0) return;
    const std::uint64_t page = rank.node().page_bytes();
    const std::uint64_t pages = (address + bytes - 1) / page - address / page + 1;
    rank.advance(ps_from_ns(static_cast<double>(pages) * rank.messaging().register_ns));
  }
};

}  // namespace

const ProtocolSpec rendezvous_protocol{"rendezvous", "asks first, then RDMA from user memory to user memory", false,
                                       made<Protocol, Rendezvous>};

}  // namespace nearfield::sim

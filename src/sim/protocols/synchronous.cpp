// S3's synchronous mode of the T3E: when both sides are there, data goes from memory to memory through E-registers,
// past the caches, element by element if it is strided. The sender's core loads a block of registers and sends it; the
// block is stored at the receiver. Simplified: there the receiver's core does it, which waits meanwhile anyway; on a
// T3E its memory is written without it.
#include <algorithm>

#include "sim/endpoint.hpp"

namespace nearfield::sim {
namespace {

constexpr std::uint64_t block_bytes = 512 * 8;  // S3, section 3: 512 E-registers for users

class Synchronous final : public Protocol {
 public:
  void start(Endpoint& sender, Message& message) override { control(sender, message, Step::arrived); }

  Task<> matched(Endpoint& receiver, Message& message) override {
    control(receiver, message, Step::clear_to_send);
    co_return;
  }

  // The sender's side is over when its last block has left.
  void left(Shipment& shipment) override {
    if (shipment.arrival == Step::data && shipment.part_offset + shipment.part_bytes == shipment.message->bytes)
      shipment.from->site().drop(*shipment.message);
  }

  Task<> step(Endpoint& rank, Message& message, const Item& item) override {
    if (item.step == Step::clear_to_send)
      co_await send_blocks(rank, message);
    else
      store_block(rank, message, item);
  }

 private:
  static void control(Endpoint& from, Message& message, Step step) {
    Shipment shipment = from.shipment(message);
    shipment.arrival = step;
    from.site().shipping.send(shipment);
  }

  static Task<> send_blocks(Endpoint& sender, Message& message) {
    do {
      Shipment block;
      block.message = &message;
      block.from = &sender;
      block.to = message.to;
      block.arrival = Step::data;
      block.quiet = true;
      block.part_offset = message.sent_bytes;
      block.part_bytes = block.bytes = std::min(block_bytes, message.bytes - message.sent_bytes);
      sender.node().touch(sender.core(), Access::load_nontemporal, message.data, message.sent_bytes, block.bytes);
      sender.node().drain(sender.core());
      message.sent_bytes += block.bytes;
      sender.site().shipping.send(block);
      co_await sender.settle();
    } while (message.sent_bytes < message.bytes);
    sender.complete(message.send);
  }

  static void store_block(Endpoint& receiver, Message& message, const Item& item) {
    receiver.node().touch(receiver.core(), Access::store_nontemporal, message.receive->buffer, item.offset, item.bytes);
    message.received_bytes += item.bytes;
    if (message.received_bytes < message.bytes) return;
    receiver.node().drain(receiver.core());
    receiver.finish(message, message.receive);
  }
};

}  // namespace

const ProtocolSpec synchronous_protocol{"synchronous", "memory to memory past the caches, when both are there (T3E)",
                                        false, made<Protocol, Synchronous>};

}  // namespace nearfield::sim

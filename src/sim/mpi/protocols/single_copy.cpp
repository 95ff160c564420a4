// Within a node, by the kernel, as KNEM in paper S0 (papers/S0/README.md): the sender announces the address of its
// data. When the message is matched, the receiver's core enters the kernel, copies from the sender's buffer into its
// own, and notifies the sender. Looking up and pinning a page of the sender's buffer takes Messaging::copy_page_ns.
#include "sim/mpi/endpoint.hpp"

namespace nearfield::sim {
namespace {

std::uint64_t count_pages(const Buffer& buffer, std::uint64_t page_bytes) {
  std::uint64_t pages = 0;
  for (std::uint64_t offset = 0; offset < buffer.bytes();) {
    const AddressRange run = contiguous_range_at(buffer, offset);
    pages += (run.address + run.bytes - 1) / page_bytes - run.address / page_bytes + 1;
    offset += run.bytes;
  }
  return pages;
}

class SingleCopyProtocol final : public Protocol {
 public:
  void start_send(Endpoint& sender, Message& message) override {
    sender.notify_peer(*message.to, sender.make_packet(message, PacketKind::arrived));
  }

  Task<> handle_match(Endpoint& receiver, Message& message) override {
    const auto& costs = receiver.messaging();
    receiver.advance_clock(ps_from_ns(costs.system_call_ns));
    if (costs.copy_page_ns > 0) {
      const auto pages = count_pages(message.data, receiver.node().page_bytes());
      receiver.advance_clock(ps_from_ns(static_cast<double>(pages) * costs.copy_page_ns));
    }
    co_await receiver.copy(message.receive->buffer, 0, message.data, 0, message.bytes);
    receiver.notify_peer(*message.from, receiver.make_packet(message, PacketKind::received));
    receiver.complete_message(message, message.receive);
  }

  Task<> handle_packet(Endpoint& sender, Message& message, const ProtocolPacket&) override {
    sender.complete_message(message, message.send);
    co_return;
  }
};

}  // namespace

extern const ProtocolSpec single_copy_protocol;
const ProtocolSpec single_copy_protocol{"single-copy", "the receiver's core copies from the sender's memory", true,
                                        make_implementation<Protocol, SingleCopyProtocol>};

}  // namespace nearfield::sim

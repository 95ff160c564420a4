// S4's MPI-MIAMI: OS bypass and zero copy for every size. The NIC reads the sender's buffer; the receiver's NIC
// matches, puts the payload straight into the receiver's buffer if its receive is posted, and keeps it until then if
// not; after the payload it writes an event. Data in blocks is packed first and unpacked at the end. Left out: what a
// NIC's memory can hold.
#include "sim/endpoint.hpp"

namespace nearfield::sim {
namespace {

class ZeroCopy final : public Protocol {
 public:
  void start(Endpoint& sender, Message& message) override {
    const Address source = sender.packed(message);
    Shipment shipment = sender.shipment(message);
    shipment.source = source;
    shipment.bytes = message.bytes;
    shipment.placed = true;
    shipment.arrival = Step::data;
    shipment.departure = Step::sent;
    sender.site().shipping.send(shipment);
  }

  bool matches_at_nic() const override { return true; }

  // A receive may have been posted by a rank that is ahead of the engine: then it is not there yet on the rank's clock.
  std::optional<Landing> place(Endpoint& receiver, Message& message, Shipment& shipment) override {
    message.receive = receiver.match(message, shipment.first);
    if (!message.receive) return {};
    const Clock& since = message.receive->posted;
    if (since.first() > receiver.site().engine.now()) {
      write_later(receiver, message);
      return {};
    }
    return Landing{receiver.landing(*message.receive, message.bytes), later(shipment.first, since)};
  }

  void posted(Endpoint& receiver, Message& message) override { write_later(receiver, message); }

  Task<> matched(Endpoint&, Message&) override { co_return; }  // all is done at the NIC

  Task<> step(Endpoint& rank, Message& message, const Item& item) override {
    if (item.step == Step::sent) {
      rank.give_packed(message);
      rank.finish(message, message.send);
    } else {
      rank.advance(ps_from_ns(rank.messaging().match_ns));
      co_await rank.unpack(*message.receive, message.bytes);
      rank.finish(message, message.receive);
    }
  }

 private:
  // Releases what the NIC kept, at the time when its receive is posted.
  static void write_later(Endpoint& receiver, Message& message) {
    const auto act = [](void* what) {
      auto& its = *static_cast<Message*>(what);
      its.to->site().shipping.release(*its.kept, its.to->landing(*its.receive, its.bytes), its.receive->posted);
    };
    receiver.site().engine.at(message.receive->posted.first(), act, &message);
  }
};

}  // namespace

extern const ProtocolSpec zero_copy_protocol;
const ProtocolSpec zero_copy_protocol{"zero-copy", "NIC to NIC, user memory to user memory, matched by the NIC", false,
                                      made<Protocol, ZeroCopy>};

}  // namespace nearfield::sim

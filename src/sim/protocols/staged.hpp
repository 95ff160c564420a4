// The common part of eager and buffered: the sender's core copies into an internal buffer, the NIC takes it from there
// and puts it into an internal buffer of the receiver, whose core copies it out when there is a receive. The send is
// over when its NIC has been told.
#pragma once

#include "sim/endpoint.hpp"

namespace nearfield::sim {

class Staged : public Protocol {
 public:
  void start(Endpoint& sender, Message& message) override {
    if (message.bytes > 0) {
      message.staged_out = take_out(sender, message.bytes);
      sender.copy_now(Buffer(message.staged_out, message.bytes), message.data, message.bytes);
    }
    Shipment shipment = sender.shipment(message);
    shipment.source = message.staged_out;
    shipment.bytes = message.bytes;
    shipment.placed = true;
    shipment.arrival = Step::arrived;
    sender.site().shipping.send(shipment);
    sender.complete(message.send);
  }

  void left(Shipment& shipment) override {
    Message& message = *shipment.message;
    if (message.bytes > 0) give_out(*message.from, message.staged_out, message.bytes);
    message.from->site().drop(message);
  }

  std::optional<Landing> place(Endpoint& receiver, Message& message, Shipment& shipment) override {
    if (message.bytes > 0) message.staged_in = take_in(receiver, message.bytes);
    return Landing{message.staged_in, shipment.first};
  }

  Task<> matched(Endpoint& receiver, Message& message) override {
    co_await receiver.copy(message.receive->buffer, 0, Buffer(message.staged_in, message.bytes), 0, message.bytes);
    if (message.bytes > 0) give_in(receiver, message.staged_in, message.bytes);
    receiver.finish(message, message.receive);
  }

 private:
  // Buffers for so many bytes, as large as the message unless a protocol has others.
  virtual Address take_out(Endpoint& sender, std::uint64_t bytes) { return sender.scratch().take(bytes); }
  virtual void give_out(Endpoint& sender, Address buffer, std::uint64_t bytes) { sender.scratch().give(buffer, bytes); }
  virtual Address take_in(Endpoint& receiver, std::uint64_t bytes) { return receiver.scratch().take(bytes); }
  virtual void give_in(Endpoint& receiver, Address buffer, std::uint64_t bytes) {
    receiver.scratch().give(buffer, bytes);
  }
};

}  // namespace nearfield::sim

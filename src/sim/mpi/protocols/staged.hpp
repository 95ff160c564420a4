// The common part of the protocols eager and buffered: the sender's core copies the message into an internal buffer,
// from which the NIC transfers it into an internal buffer of the receiver. The receiver's core copies the message out
// when it is matched. The send completes when its command has been posted to the NIC.
#pragma once

#include "sim/mpi/endpoint.hpp"

namespace nearfield::sim {

class StagedProtocol : public Protocol {
 public:
  void start_send(Endpoint& sender, Message& message) override {
    if (message.bytes > 0) {
      message.staged_out = acquire_send_buffer(sender, message.bytes);
      sender.copy_now(Buffer(message.staged_out, message.bytes), message.data, message.bytes);
    }
    NicTransfer transfer = sender.post_command(message);
    transfer.source = message.staged_out;
    transfer.bytes = message.bytes;
    transfer.placed = true;
    transfer.arrival = PacketKind::arrived;
    sender.node_state().transfers.send(transfer);
    sender.complete_request(message.send);
  }

  bool arrives_with_data() const override { return true; }

  void handle_payload_read(NicTransfer& transfer) override {
    Message& message = *transfer.message;
    if (message.bytes > 0) release_send_buffer(*message.from, message.staged_out, message.bytes);
    message.from->node_state().drop_reference(message);
  }

  std::optional<PayloadTarget> choose_payload_target(Endpoint& receiver, Message& message,
                                                     NicTransfer& transfer) override {
    if (message.bytes > 0) message.staged_in = acquire_receive_buffer(receiver, message.bytes);
    return PayloadTarget{message.staged_in, transfer.first};
  }

  Task<> handle_match(Endpoint& receiver, Message& message) override {
    co_await receiver.copy(message.receive->buffer, 0, Buffer(message.staged_in, message.bytes), 0, message.bytes);
    if (message.bytes > 0) release_receive_buffer(receiver, message.staged_in, message.bytes);
    receiver.complete_message(message, message.receive);
  }

 private:
  // Acquire and release the internal buffers for a message of `bytes`; by default, of the same size.
  virtual Address acquire_send_buffer(Endpoint& sender, std::uint64_t bytes) {
    return sender.scratch_pool().acquire(bytes);
  }
  virtual void release_send_buffer(Endpoint& sender, Address buffer, std::uint64_t bytes) {
    sender.scratch_pool().release(buffer, bytes);
  }
  virtual Address acquire_receive_buffer(Endpoint& receiver, std::uint64_t bytes) {
    return receiver.scratch_pool().acquire(bytes);
  }
  virtual void release_receive_buffer(Endpoint& receiver, Address buffer, std::uint64_t bytes) {
    receiver.scratch_pool().release(buffer, bytes);
  }
};

}  // namespace nearfield::sim

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
      message.send_staging = acquire_send_buffer(sender, message.bytes);
      sender.copy_now(Buffer(message.send_staging, message.bytes), message.data, message.bytes);
    }
    NicTransfer transfer = sender.post_command(message);
    transfer.source = message.send_staging;
    transfer.bytes = message.bytes;
    transfer.is_placed_on_arrival = true;
    transfer.arrival_packet = PacketKind::arrived;
    sender.node_state().transfers.send(transfer);
    sender.complete_request(message.send);
  }

  bool arrives_with_data() const override { return true; }

  void handle_payload_read(NicTransfer& transfer) override {
    Message& message = *transfer.message;
    if (message.bytes > 0) release_send_buffer(*message.from, message.send_staging, message.bytes);
    message.from->node_state().drop_reference(message);
  }

  std::optional<PayloadTarget> choose_payload_target(Endpoint& receiver, Message& message,
                                                     NicTransfer& transfer) override {
    if (message.bytes > 0) message.receive_staging = acquire_receive_buffer(receiver, message.bytes);
    return PayloadTarget{message.receive_staging, transfer.first_byte_arrival};
  }

  Task<> handle_match(Endpoint& receiver, Message& message) override {
    co_await receiver.copy(message.receive->buffer, 0, Buffer(message.receive_staging, message.bytes), 0,
                           message.bytes);
    if (message.bytes > 0) release_receive_buffer(receiver, message.receive_staging, message.bytes);
    receiver.complete_message(message, message.receive);
  }

 private:
  // Acquire and release the internal buffers for a message of `bytes`. By default, the buffers have that size.
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

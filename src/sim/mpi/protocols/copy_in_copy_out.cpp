// Within a node, as in paper S0 (papers/S0/README.md), section II.D: messages pass through a ring buffer in shared
// memory, of Messaging::ring_bytes per pair of ranks.
// The sender announces the message; when it is matched, the sender's core copies the data into the ring, slot by slot,
// and the receiver's core copies the data out concurrently. A sender that finds the ring full resumes when a slot is
// free. All copies and flags are accesses of the two cores. Not modeled: non-temporal stores.
#include <algorithm>
#include <deque>
#include <map>

#include "sim/mpi/endpoint.hpp"

namespace nearfield::sim {
namespace {

constexpr std::size_t slots_per_ring = 4;

struct RingSlot {
  Address data = 0, flag = 0;
  bool is_free = true;
  ConfigClock freed_time;  // when the slot was freed last; without variants: the slot was never used
  StepId freeing_step;     // the step of the receiver's schedule that freed it
};

struct SharedRing {
  std::vector<RingSlot> slots;
  std::size_t next_slot = 0;
  std::deque<Message*> blocked_messages;  // messages that wait for a free slot
};

class CopyInCopyOutProtocol final : public Protocol {
 public:
  explicit CopyInCopyOutProtocol(NodeState& node_state)
      : slot_bytes_(std::max<std::uint64_t>(64, node_state.cluster.machine.messaging.ring_bytes / slots_per_ring)) {}

  void start_send(Endpoint& sender, Message& message) override {
    sender.notify_peer(*message.to, sender.make_packet(message, PacketKind::arrived));
  }

  Task<> handle_match(Endpoint& receiver, Message& message) override {
    receiver.notify_peer(*message.from, receiver.make_packet(message, PacketKind::clear_to_send));
    co_return;
  }

  Task<> handle_packet(Endpoint& rank, Message& message, const ProtocolPacket& packet) override {
    return packet.kind == PacketKind::data ? copy_out_of_ring(rank, message, packet) : copy_into_ring(rank, message);
  }

 private:
  Task<> copy_into_ring(Endpoint& sender, Message& message) {
    SharedRing& ring = ring_of(message);
    do {
      const std::size_t slot_number = ring.next_slot;
      RingSlot& slot = ring.slots[slot_number];
      if (!slot.is_free) {
        ring.blocked_messages.push_back(&message);
        co_return;
      }
      slot.is_free = false;
      ring.next_slot = (ring.next_slot + 1) % slots_per_ring;
      if (slot.freed_time.num_variants() > 0) {
        sender.wait_for_step(slot.freeing_step, slot.freed_time);
        sender.node().access(sender.core(), Access::chase, slot.flag, 8);
      }
      ProtocolPacket* const packet = sender.make_packet(message, PacketKind::data);
      packet->slot = slot_number;
      packet->offset = message.sent_bytes;
      packet->bytes = std::min(slot_bytes_, message.bytes - message.sent_bytes);
      message.sent_bytes += packet->bytes;
      co_await sender.copy(Buffer(slot.data, slot_bytes_), 0, message.data, packet->offset, packet->bytes);
      sender.notify_peer(*message.to, packet, slot.flag);
      co_await sender.sync_with_engine();
    } while (message.sent_bytes < message.bytes);
    sender.complete_message(message, message.send);
  }

  Task<> copy_out_of_ring(Endpoint& receiver, Message& message, const ProtocolPacket& packet) {
    SharedRing& ring = ring_of(message);
    RingSlot& slot = ring.slots[packet.slot];
    co_await receiver.copy(message.receive->buffer, packet.offset, Buffer(slot.data, slot_bytes_), 0, packet.bytes);
    release_slot(receiver, ring, slot);
    message.received_bytes += packet.bytes;
    if (message.received_bytes < message.bytes) co_return;
    receiver.complete_message(message, message.receive);
  }

  // Frees a slot of the ring. If a sender is blocked, notifies it by a packet; otherwise sets the slot's flag, which
  // the sender reads when it reuses the slot.
  static void release_slot(Endpoint& receiver, SharedRing& ring, RingSlot& slot) {
    slot.is_free = true;
    if (!ring.blocked_messages.empty()) {
      Message& blocked_message = *ring.blocked_messages.front();
      ring.blocked_messages.pop_front();
      slot.freeing_step = receiver.notify_peer(*blocked_message.from,
                                               receiver.make_packet(blocked_message, PacketKind::slot_free), slot.flag);
    } else {
      receiver.node().drain(receiver.core());
      receiver.node().access(receiver.core(), Access::store, slot.flag, 8);
      slot.freeing_step = receiver.add_notify_step();
    }
    slot.freed_time = receiver.now();
  }

  SharedRing& ring_of(const Message& message) {
    Endpoint& sender = *message.from;
    SharedRing& ring = rings_[{sender.rank(), message.to->rank()}];
    if (ring.slots.empty()) {
      constexpr std::uint64_t flag_spacing_bytes = 256;  // each flag has a cache line of its own, at any line size
      const Address flags = sender.node().allocate(sender.core(), slots_per_ring * (flag_spacing_bytes + slot_bytes_));
      for (std::size_t i = 0; i < slots_per_ring; ++i)
        ring.slots.push_back(
            {flags + slots_per_ring * flag_spacing_bytes + i * slot_bytes_, flags + i * flag_spacing_bytes, true, {}});
    }
    return ring;
  }

  std::uint64_t slot_bytes_;
  std::map<std::pair<int, int>, SharedRing> rings_;  // by sender and receiver
};

}  // namespace

extern const ProtocolSpec copy_in_copy_out_protocol;
const ProtocolSpec copy_in_copy_out_protocol{"copy-in-copy-out", "through a ring in shared memory, both cores at once",
                                             true, make_implementation<Protocol, CopyInCopyOutProtocol>};

}  // namespace nearfield::sim

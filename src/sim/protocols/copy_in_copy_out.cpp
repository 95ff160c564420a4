// Within a node (S0, section II.D): through a ring in shared memory, of Messaging::ring_bytes per pair of ranks. The
// sender asks; when there is a receive its core copies the data into the ring, slot by slot, and the receiver's core
// copies it out, both at the same time. Who finds the ring full goes on when a slot is free again. All copies, and the
// flags by which the two tell each other, are accesses of their cores. Left out: non-temporal stores.
#include <algorithm>
#include <deque>
#include <map>

#include "sim/endpoint.hpp"

namespace nearfield::sim {
namespace {

constexpr std::size_t slots_per_ring = 4;

struct Slot {
  Address data = 0, flag = 0;
  bool free = true;
  Clock free_at;  // in use before, if this has variants
};

struct Ring {
  std::vector<Slot> slots;
  std::size_t next = 0;
  std::deque<Message*> blocked;  // that found it full
};

class CopyInCopyOut final : public Protocol {
 public:
  explicit CopyInCopyOut(Site& site)
      : slot_bytes_(std::max<std::uint64_t>(64, site.world.machine.messaging.ring_bytes / slots_per_ring)) {}

  void start(Endpoint& sender, Message& message) override {
    sender.tell(*message.to, sender.make_item(message, Step::arrived));
  }

  Task<> matched(Endpoint& receiver, Message& message) override {
    receiver.tell(*message.from, receiver.make_item(message, Step::clear_to_send));
    co_return;
  }

  Task<> step(Endpoint& rank, Message& message, const Item& item) override {
    return item.step == Step::data ? copy_out(rank, message, item) : copy_in(rank, message);
  }

 private:
  Task<> copy_in(Endpoint& sender, Message& message) {
    Ring& ring = ring_of(message);
    do {
      const std::size_t number = ring.next;
      Slot& slot = ring.slots[number];
      if (!slot.free) {
        ring.blocked.push_back(&message);
        co_return;
      }
      slot.free = false;
      ring.next = (ring.next + 1) % slots_per_ring;
      if (slot.free_at.variants() > 0) {
        sender.node().wait_until(sender.core(), slot.free_at);
        sender.node().access(sender.core(), Access::chase, slot.flag, 8);
      }
      Item* const item = sender.make_item(message, Step::data);
      item->slot = number;
      item->offset = message.sent_bytes;
      item->bytes = std::min(slot_bytes_, message.bytes - message.sent_bytes);
      message.sent_bytes += item->bytes;
      co_await sender.copy(Buffer(slot.data, slot_bytes_), 0, message.data, item->offset, item->bytes);
      sender.tell(*message.to, item, slot.flag);
      co_await sender.settle();
    } while (message.sent_bytes < message.bytes);
    sender.finish(message, message.send);
  }

  Task<> copy_out(Endpoint& receiver, Message& message, const Item& item) {
    Ring& ring = ring_of(message);
    Slot& slot = ring.slots[item.slot];
    co_await receiver.copy(message.receive->buffer, item.offset, Buffer(slot.data, slot_bytes_), 0, item.bytes);
    release(receiver, ring, slot);
    message.received_bytes += item.bytes;
    if (message.received_bytes < message.bytes) co_return;
    receiver.finish(message, message.receive);
  }

  // A sender that is blocked is told; others look at the flag when they come to the slot.
  static void release(Endpoint& receiver, Ring& ring, Slot& slot) {
    slot.free = true;
    if (!ring.blocked.empty()) {
      Message& waiting = *ring.blocked.front();
      ring.blocked.pop_front();
      receiver.tell(*waiting.from, receiver.make_item(waiting, Step::slot_free), slot.flag);
    } else {
      receiver.node().drain(receiver.core());
      receiver.node().access(receiver.core(), Access::store, slot.flag, 8);
    }
    slot.free_at = receiver.now();
  }

  Ring& ring_of(const Message& message) {
    Endpoint& sender = *message.from;
    Ring& ring = rings_[{sender.rank(), message.to->rank()}];
    if (ring.slots.empty()) {
      constexpr std::uint64_t line = 256;  // flags lie in lines of their own, of any cache
      const Address flags = sender.node().allocate(sender.core(), slots_per_ring * (line + slot_bytes_));
      for (std::size_t i = 0; i < slots_per_ring; ++i)
        ring.slots.push_back({flags + slots_per_ring * line + i * slot_bytes_, flags + i * line, true, {}});
    }
    return ring;
  }

  std::uint64_t slot_bytes_;
  std::map<std::pair<int, int>, Ring> rings_;  // by sender and receiver
};

}  // namespace

extern const ProtocolSpec copy_in_copy_out_protocol;
const ProtocolSpec copy_in_copy_out_protocol{"copy-in-copy-out", "through a ring in shared memory, both cores at once",
                                             true, made<Protocol, CopyInCopyOut>};

}  // namespace nearfield::sim

// The way of one network message from the sender's NIC to the event that tells the receiver, as events of the engine:
// the NIC fetches the command and reads the payload, the network carries it, the other NIC writes it, a page at a time as
// it arrives, and then an event.
#pragma once

#include <optional>

#include "sim/message.hpp"
#include "sim/pool.hpp"

namespace nearfield::sim {

struct World;

struct Shipment {
  Message* message = nullptr;
  Endpoint* from = nullptr;
  Endpoint* to = nullptr;
  Address command = 0;                            // the entry in the sender's queue; 0: the core drives the NIC itself
  Address source = 0;                             // 0: the NIC has the payload already
  std::uint64_t bytes = 0;                        // payload
  Address target = 0;                             // 0: nothing is written, or
  bool placed = false;                            // the protocol says on arrival where to
  std::optional<Step> arrival;                    // what the receiver is told when everything is there
  std::optional<Step> departure;                  // what the sender is told when everything has been read
  bool quiet = false;                             // the receiver is told without an event in its queue
  std::uint64_t part_offset = 0, part_bytes = 0;  // what the items say
  // Set on the way:
  Clock start, left, first, last;
  std::uint64_t written = 0;  // payload bytes
  int under_way = 0;          // events that still need it
};

class Shipping {
 public:
  explicit Shipping(World& world) : world_(world) {}
  // Sends the shipment at the sender's clock.
  void send(const Shipment& shipment);
  // Lets the receiver's NIC write a message that it kept.
  void release(Shipment& kept, Address target, const Clock& start);

 private:
  template <void (Shipping::*phase)(Shipment&)>
  void at(const Clock& when, Shipment& shipment);
  void inject(Shipment& shipment);
  void leave(Shipment& shipment);
  void arrive(Shipment& shipment);
  void write(Shipment& shipment, Address target, const Clock& start);
  void write_piece(Shipment& shipment);
  void tell(Shipment& shipment);
  void done(Shipment& shipment);

  World& world_;
  Pool<Shipment> pool_;
};

}  // namespace nearfield::sim

// The way of one network message from the sender's NIC to the event that tells the receiver, as events of the two nodes'
// engines: the NIC fetches the command and reads the payload, the network carries it, the other NIC writes it, a page at a
// time as it arrives, and then an event. What leaves a node waits for the end of the window, when all nodes' messages
// enter the network in the order of time (windows.hpp).
#pragma once

#include <optional>
#include <vector>

#include "sim/message.hpp"
#include "sim/network/network.hpp"
#include "sim/pool.hpp"

namespace nearfield::sim {

struct Site;
struct World;
class Shipping;

struct Shipment {
  Message* message = nullptr;  // this node's
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
  Address part_target = 0;
  // Set on the way:
  Shipping* at = nullptr;  // this node's
  Clock start, left, first, last;
  std::uint64_t written = 0;  // payload bytes
};

// A shipment that has left its node, since when the engine knows of it, and what the other side has to know.
struct Gone {
  Ps since = 0;
  Passage passage;
  Envelope envelope;
  Message* there = nullptr;  // the other side's message; none: this is its first shipment
  Shipment shipment;
};

// Puts what the other side has to know into bytes, or takes it out of them. Messages stay numbers that only the shard
// understands that has them.
template <class Pack>
void fields(Pack& pack, Gone& gone, const World& world);

class Shipping {
 public:
  explicit Shipping(Site& site) : site_(site) {}
  // Sends the shipment at the sender's clock.
  void send(const Shipment& shipment);
  // Lets the receiver's NIC write a message that it kept.
  void release(Shipment& kept, Address target, const Clock& start);

  // ---- between windows
  // Returns the shipments that have left this node since the last forget_gone(), in the order of time.
  std::vector<Gone>& gone() { return gone_; }
  void forget_gone() { gone_.clear(); }
  // Lets a shipment of another node arrive, at that time of the engine.
  void expect(const Gone& gone, const Passage& passage, Ps when);

 private:
  template <void (Shipping::*phase)(Shipment&)>
  void at(const Clock& when, Shipment& shipment);
  template <void (Shipping::*phase)(Shipment&)>
  static void perform(void* shipment);
  void inject(Shipment& shipment);
  void leave(Shipment& shipment);
  Message& receivers_message(const Envelope& envelope);
  void arrive(Shipment& shipment);
  void write(Shipment& shipment, Address target, const Clock& start);
  void write_piece(Shipment& shipment);
  void tell(Shipment& shipment);

  Site& site_;
  Pool<Shipment> pool_;
  std::vector<Gone> gone_;
};

}  // namespace nearfield::sim

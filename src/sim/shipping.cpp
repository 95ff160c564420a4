#include "sim/shipping.hpp"

#include <algorithm>

#include "sim/endpoint.hpp"
#include "sim/world.hpp"

namespace nearfield::sim {

template <void (Shipping::*phase)(Shipment&)>
void Shipping::at(const Clock& when, Shipment& shipment) {
  const auto act = [](void* what) {
    auto& its = *static_cast<Shipment*>(what);
    (its.from->world().shipping.*phase)(its);
  };
  world_.engine.at(std::max(when.first(), world_.engine.now()), act, &shipment);
}

void Shipping::send(const Shipment& shipment) {
  Shipment& mine = *pool_.take();
  mine = shipment;
  mine.start = shipment.from->now();
  at<&Shipping::inject>(mine.start, mine);
}

void Shipping::inject(Shipment& shipment) {
  Nic& nic = shipment.from->nic();
  if (shipment.command) shipment.start = nic.fetch(shipment.command, shipment.start);
  Clock feed(world_.variants);
  if (shipment.source && shipment.bytes > 0) {
    const auto reading = nic.read(shipment.source, shipment.bytes, shipment.start);
    shipment.start = reading.first;
    feed = reading.last - reading.first;
  }
  const Passage passage = world_.network->transfer(shipment.from->node_number(), shipment.to->node_number(),
                                                   shipment.bytes, shipment.start, feed);
  shipment.left = passage.left;
  shipment.first = passage.first;
  shipment.last = passage.last;
  shipment.under_way = 2;
  at<&Shipping::leave>(shipment.left, shipment);
  at<&Shipping::arrive>(shipment.first, shipment);
}

void Shipping::leave(Shipment& shipment) {
  Message& message = *shipment.message;
  if (shipment.departure) {
    const auto event = shipment.from->nic().answer(shipment.from->core(), shipment.command, shipment.left);
    Item* const item = shipment.from->make_item(message, *shipment.departure);
    item->line = event.entry;
    item->of_nic = true;
    item->visible = event.visible;
    shipment.from->deliver(item);
  }
  message.protocol->left(shipment);
  done(shipment);
}

void Shipping::arrive(Shipment& shipment) {
  if (!shipment.placed) return write(shipment, shipment.target, shipment.first);
  const auto landing = shipment.message->protocol->place(*shipment.to, *shipment.message, shipment);
  if (landing)
    write(shipment, landing->address, landing->start);
  else
    shipment.message->kept = &shipment;
}

void Shipping::release(Shipment& kept, Address target, const Clock& start) {
  kept.message->kept = nullptr;
  write(kept, target, later(kept.first, start));
}

void Shipping::write(Shipment& shipment, Address target, const Clock& start) {
  // Without payload, too, what arrived before is written first, or headers would overtake.
  shipment.last = shipment.to->nic().write(shipment.to->core(), target, target ? shipment.bytes : 0,
                                           shipment.message->bytes, start, later(shipment.last, start));
  at<&Shipping::tell>(shipment.last, shipment);
}

void Shipping::tell(Shipment& shipment) {
  if (shipment.arrival) {
    Item* const item = shipment.to->make_item(*shipment.message, *shipment.arrival);
    item->offset = shipment.part_offset;
    item->bytes = shipment.part_bytes;
    item->visible = shipment.last;
    if (!shipment.quiet) {
      const auto event = shipment.to->nic().notify(shipment.to->core(), shipment.last);
      item->line = event.entry;
      item->of_nic = true;
      item->visible = event.visible;
    }
    shipment.to->deliver(item);
  }
  done(shipment);
}

void Shipping::done(Shipment& shipment) {
  if (--shipment.under_way == 0) pool_.give(&shipment);
}

}  // namespace nearfield::sim

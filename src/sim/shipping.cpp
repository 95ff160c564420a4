#include "sim/shipping.hpp"

#include <algorithm>
#include <cmath>

#include "sim/endpoint.hpp"
#include "sim/nic/nic.hpp"
#include "sim/packing.hpp"
#include "sim/site.hpp"

namespace nearfield::sim {

namespace {

constexpr std::uint64_t most_at_a_time = 4096;

// Returns when the first byte arrives that is not written yet: bytes come evenly from the first to the last.
Clock arrival(const Shipment& shipment, std::uint64_t bytes) {
  if (shipment.written == bytes) return shipment.last;
  Clock when = shipment.last - shipment.first;
  const double share = static_cast<double>(shipment.written) / static_cast<double>(bytes);
  for (auto& times : when)
    for (auto& time : times.at) time = std::nearbyint(time * share);
  return when + shipment.first;
}

}  // namespace

template <class Pack>
void fields(Pack& pack, Gone& gone, const World& world) {
  const auto endpoint = [&](Endpoint*& which) {
    int rank = which ? which->rank() : 0;
    pack(rank);
    which = world.ranks.at(static_cast<std::size_t>(rank)).get();
  };
  Shipment& its = gone.shipment;
  pack(gone.since, gone.passage.first, gone.passage.last, gone.there);
  endpoint(its.from);
  endpoint(its.to);
  pack(its.message, its.bytes, its.target, its.placed, its.arrival, its.quiet);
  pack(its.part_offset, its.part_bytes, its.part_target);
  if (gone.there) return;
  Envelope& envelope = gone.envelope;
  endpoint(envelope.from);
  endpoint(envelope.to);
  pack(envelope.tag, envelope.context, envelope.bytes, envelope.sequence, envelope.sent, envelope.synchronous);
}

template void fields(Packing&, Gone&, const World&);
template void fields(Unpacking&, Gone&, const World&);

template <void (Shipping::*phase)(Shipment&)>
void Shipping::perform(void* shipment) {
  auto& its = *static_cast<Shipment*>(shipment);
  (its.at->*phase)(its);
}

template <void (Shipping::*phase)(Shipment&)>
void Shipping::at(const Clock& when, Shipment& shipment) {
  site_.engine.at(std::max(when.first(), site_.engine.now()), &perform<phase>, &shipment);
}

void Shipping::send(const Shipment& shipment) {
  Shipment& mine = *pool_.take();
  mine = shipment;
  mine.at = this;
  mine.start = shipment.from->now();
  at<&Shipping::inject>(mine.start, mine);
}

void Shipping::inject(Shipment& shipment) {
  Nic& nic = shipment.from->nic();
  if (shipment.command) shipment.start = nic.fetch(shipment.command, shipment.start);
  Clock feed(site_.world.variants);
  if (shipment.source && shipment.bytes > 0) {
    const auto reading = nic.read(shipment.source, shipment.bytes, shipment.start);
    shipment.start = reading.first;
    feed = reading.last - reading.first;
  }
  const Passage passage = site_.world.network->leave(site_.number, shipment.bytes, shipment.start, feed);
  const Message& message = *shipment.message;
  gone_.push_back({site_.engine.now(), passage, message, message.other, shipment});
  shipment.left = passage.left;
  at<&Shipping::leave>(shipment.left, shipment);
}

void Shipping::expect(const Gone& gone, const Passage& passage, Ps when) {
  Shipment& mine = *pool_.take();
  mine = gone.shipment;
  mine.at = this;
  mine.first = passage.first;
  mine.last = passage.last;
  mine.message = gone.there ? gone.there : &receivers_message(gone.envelope);
  mine.message->other = gone.shipment.message;
  site_.engine.at_from_outside(when, &perform<&Shipping::arrive>, &mine);
}

Message& Shipping::receivers_message(const Envelope& envelope) {
  Message& message = *site_.messages.take();
  message = Message{};
  static_cast<Envelope&>(message) = envelope;
  message.protocol = &site_.protocol(false, message.bytes, message.synchronous);
  return message;
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
  pool_.give(&shipment);
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
  shipment.target = target;
  shipment.first = start;
  shipment.last = later(shipment.last, start);
  write_piece(shipment);
}

// Writes the next piece when its first byte is there. A message without payload is written as well: it waits for those
// that arrived before it, which its header must not overtake.
void Shipping::write_piece(Shipment& shipment) {
  const std::uint64_t bytes = shipment.target ? shipment.bytes : 0;
  const Address begin = shipment.target + shipment.written, piece_end = (begin / most_at_a_time + 1) * most_at_a_time;
  const std::uint64_t piece = std::min(piece_end - begin, bytes - shipment.written);
  const Clock start = arrival(shipment, bytes);
  shipment.written += piece;
  const Clock there = shipment.to->nic().write(shipment.to->core(), begin, piece, shipment.message->bytes, start,
                                               arrival(shipment, bytes));
  if (shipment.written < bytes) return at<&Shipping::write_piece>(arrival(shipment, bytes), shipment);
  shipment.last = there;
  at<&Shipping::tell>(shipment.last, shipment);
}

void Shipping::tell(Shipment& shipment) {
  if (shipment.arrival) {
    Item* const item = shipment.to->make_item(*shipment.message, *shipment.arrival);
    item->offset = shipment.part_offset;
    item->bytes = shipment.part_bytes;
    item->target = shipment.part_target;
    item->visible = shipment.last;
    if (!shipment.quiet) {
      const auto event = shipment.to->nic().notify(shipment.to->core(), shipment.last);
      item->line = event.entry;
      item->of_nic = true;
      item->visible = event.visible;
    }
    shipment.to->deliver(item);
  }
  pool_.give(&shipment);
}

}  // namespace nearfield::sim

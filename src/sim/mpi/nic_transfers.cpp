#include "sim/mpi/nic_transfers.hpp"

#include <algorithm>
#include <cmath>

#include "sim/engine/packing.hpp"
#include "sim/mpi/endpoint.hpp"
#include "sim/mpi/node_state.hpp"
#include "sim/nic/nic.hpp"

namespace nearfield::sim {

namespace {

constexpr std::uint64_t max_piece_bytes = 4096;

// Returns the arrival time of the first byte that is not yet written: bytes arrive at a constant rate.
ConfigClock next_byte_arrival(const NicTransfer& transfer, std::uint64_t bytes) {
  if (transfer.written == bytes) return transfer.last;
  ConfigClock when = transfer.last - transfer.first;
  const double share = static_cast<double>(transfer.written) / static_cast<double>(bytes);
  for (auto& times : when)
    for (auto& time : times.at) time = std::nearbyint(time * share);
  return when + transfer.first;
}

}  // namespace

template <class Pack>
void fields(Pack& pack, DepartedTransfer& departed, const ClusterState& cluster) {
  const auto endpoint = [&](Endpoint*& other) {
    int rank = other ? other->rank() : 0;
    pack(rank);
    other = cluster.ranks.at(static_cast<std::size_t>(rank)).get();
  };
  NicTransfer& transfer = departed.transfer;
  pack(departed.since, departed.passage.first, departed.passage.last, departed.remote_message);
  endpoint(transfer.from);
  endpoint(transfer.to);
  pack(transfer.message, transfer.bytes, transfer.target, transfer.placed, transfer.arrival, transfer.quiet);
  pack(transfer.part_offset, transfer.part_bytes, transfer.part_target);
  pack(transfer.origin, transfer.latency);
  if (departed.remote_message) return;
  Envelope& envelope = departed.envelope;
  endpoint(envelope.from);
  endpoint(envelope.to);
  pack(envelope.tag, envelope.context, envelope.bytes, envelope.sequence, envelope.sent, envelope.synchronous);
}

template void fields(Packing&, DepartedTransfer&, const ClusterState&);
template void fields(Unpacking&, DepartedTransfer&, const ClusterState&);

template <void (NicTransfers::*phase)(NicTransfer&)>
void NicTransfers::run_phase(void* pointer) {
  auto& transfer = *static_cast<NicTransfer*>(pointer);
  (transfer.at->*phase)(transfer);
}

template <void (NicTransfers::*phase)(NicTransfer&)>
void NicTransfers::schedule_phase(const ConfigClock& when, NicTransfer& transfer) {
  node_state_.engine.schedule(std::max(when.first(), node_state_.engine.now()), &run_phase<phase>, &transfer);
}

void NicTransfers::send(const NicTransfer& transfer) {
  NicTransfer& mine = *pool_.acquire();
  mine = transfer;
  mine.at = this;
  mine.start = transfer.from->now();
  if (Schedule* const schedule = transfer.from->schedule())
    mine.origin = schedule->add_send(mine.start, transfer.to->rank(), transfer.bytes);
  schedule_phase<&NicTransfers::inject_into_network>(mine.start, mine);
}

void NicTransfers::inject_into_network(NicTransfer& transfer) {
  Nic& nic = transfer.from->nic();
  const Ps posted = transfer.start.first();
  if (transfer.command) transfer.start = nic.fetch(transfer.command, transfer.start);
  ConfigClock feed(node_state_.cluster.variants);
  if (transfer.source && transfer.bytes > 0) {
    const auto reading = nic.read(transfer.source, transfer.bytes, transfer.start);
    transfer.start = reading.first;
    feed = reading.last - reading.first;
  }
  transfer.latency = transfer.start.first() - posted;
  const Passage passage =
      node_state_.cluster.network->inject_message(node_state_.number, transfer.bytes, transfer.start, feed);
  const Message& message = *transfer.message;
  departed_.push_back({node_state_.engine.now(), passage, message, message.peer_message, transfer});
  transfer.left = passage.left;
  schedule_phase<&NicTransfers::leave_nic>(transfer.left, transfer);
}

void NicTransfers::schedule_arrival(const DepartedTransfer& departed, const Passage& passage, Ps when) {
  NicTransfer& mine = *pool_.acquire();
  mine = departed.transfer;
  mine.at = this;
  mine.first = passage.first;
  mine.last = passage.last;
  mine.latency += node_state_.cluster.network->latency_over(passage.hops);
  mine.message = departed.remote_message ? departed.remote_message : &make_receiver_message(departed.envelope);
  mine.message->peer_message = departed.transfer.message;
  node_state_.engine.schedule_from_remote(when, &run_phase<&NicTransfers::arrive_at_nic>, &mine);
}

Message& NicTransfers::make_receiver_message(const Envelope& envelope) {
  Message& message = *node_state_.messages.acquire();
  message = Message{};
  static_cast<Envelope&>(message) = envelope;
  message.protocol = &node_state_.protocol_between_nodes(message.bytes, message.synchronous);
  return message;
}

void NicTransfers::leave_nic(NicTransfer& transfer) {
  Message& message = *transfer.message;
  if (transfer.departure) {
    const auto event = transfer.from->nic().answer(transfer.from->core(), transfer.command, transfer.left);
    ProtocolPacket* const packet = transfer.from->make_packet(message, *transfer.departure);
    packet->line = event.entry;
    packet->of_nic = true;
    packet->visible = event.visible;
    packet->origin = transfer.origin;
    transfer.from->deliver_packet(packet);
  }
  message.protocol->handle_payload_read(transfer);
  pool_.release(&transfer);
}

void NicTransfers::arrive_at_nic(NicTransfer& transfer) {
  if (!transfer.placed) return begin_write(transfer, transfer.target, transfer.first);
  const auto landing = transfer.message->protocol->choose_payload_target(*transfer.to, *transfer.message, transfer);
  if (landing)
    begin_write(transfer, landing->address, landing->start);
  else
    transfer.message->held = &transfer;
}

void NicTransfers::write_held(NicTransfer& held, Address target, const ConfigClock& start) {
  held.message->held = nullptr;
  begin_write(held, target, later(held.first, start));
}

void NicTransfers::begin_write(NicTransfer& transfer, Address target, const ConfigClock& start) {
  transfer.target = target;
  transfer.first = start;
  transfer.last = later(transfer.last, start);
  transfer.arrived = transfer.last.first();
  write_piece(transfer);
}

// Writes the next piece of the payload when the first byte of the piece has arrived. A message without payload takes
// the same path, since its header must not overtake messages that arrived before it.
void NicTransfers::write_piece(NicTransfer& transfer) {
  const std::uint64_t bytes = transfer.target ? transfer.bytes : 0;
  const Address begin = transfer.target + transfer.written, piece_end = (begin / max_piece_bytes + 1) * max_piece_bytes;
  const std::uint64_t piece = std::min(piece_end - begin, bytes - transfer.written);
  const ConfigClock start = next_byte_arrival(transfer, bytes);
  transfer.written += piece;
  const ConfigClock done = transfer.to->nic().write(transfer.to->core(), begin, piece, transfer.message->bytes, start,
                                                    next_byte_arrival(transfer, bytes));
  if (transfer.written < bytes)
    return schedule_phase<&NicTransfers::write_piece>(next_byte_arrival(transfer, bytes), transfer);
  transfer.last = done;
  schedule_phase<&NicTransfers::notify_receiver>(transfer.last, transfer);
}

void NicTransfers::notify_receiver(NicTransfer& transfer) {
  if (transfer.arrival) {
    ProtocolPacket* const packet = transfer.to->make_packet(*transfer.message, *transfer.arrival);
    packet->offset = transfer.part_offset;
    packet->bytes = transfer.part_bytes;
    packet->target = transfer.part_target;
    packet->visible = transfer.last;
    if (!transfer.quiet) {
      const auto event = transfer.to->nic().notify(transfer.to->core(), transfer.last);
      packet->line = event.entry;
      packet->of_nic = true;
      packet->visible = event.visible;
    }
    packet->origin = transfer.origin;
    packet->latency = transfer.latency + packet->visible.first() - transfer.arrived;
    transfer.to->deliver_packet(packet);
  }
  pool_.release(&transfer);
}

}  // namespace nearfield::sim

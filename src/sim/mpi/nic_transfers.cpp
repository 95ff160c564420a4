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

// Returns the arrival time of the first of `bytes` bytes that is not written yet. Bytes arrive at a constant rate.
ConfigClock next_byte_arrival(const NicTransfer& transfer, std::uint64_t bytes) {
  if (transfer.written_bytes == bytes) return transfer.last_byte_arrival;
  ConfigClock when = transfer.last_byte_arrival - transfer.first_byte_arrival;
  const double share = static_cast<double>(transfer.written_bytes) / static_cast<double>(bytes);
  for (auto& times : when)
    for (auto& time : times.at) time = std::nearbyint(time * share);
  return when + transfer.first_byte_arrival;
}

}  // namespace

template <class Pack>
void pack_fields(Pack& pack, DepartedTransfer& departed, const ClusterState& cluster) {
  const auto endpoint = [&](Endpoint*& other) {
    int rank = other ? other->rank() : 0;
    pack(rank);
    other = cluster.ranks.at(static_cast<std::size_t>(rank)).get();
  };
  NicTransfer& transfer = departed.transfer;
  pack(departed.departure_time, departed.message_times.first_byte_arrival, departed.message_times.last_byte_arrival,
       departed.remote_message);
  endpoint(transfer.from);
  endpoint(transfer.to);
  pack(transfer.message, transfer.bytes, transfer.target, transfer.is_placed_on_arrival, transfer.arrival_packet,
       transfer.is_silent);
  pack(transfer.part_offset, transfer.part_bytes, transfer.part_target);
  pack(transfer.origin, transfer.latency);
  if (departed.remote_message) return;
  Envelope& envelope = departed.envelope;
  endpoint(envelope.from);
  endpoint(envelope.to);
  pack(envelope.tag, envelope.context, envelope.bytes, envelope.sequence, envelope.send_time, envelope.is_synchronous);
}

template void pack_fields(Packing&, DepartedTransfer&, const ClusterState&);
template void pack_fields(Unpacking&, DepartedTransfer&, const ClusterState&);

template <void (NicTransfers::*phase)(NicTransfer&)>
void NicTransfers::run_phase(void* pointer) {
  auto& transfer = *static_cast<NicTransfer*>(pointer);
  (transfer.node_transfers->*phase)(transfer);
}

template <void (NicTransfers::*phase)(NicTransfer&)>
void NicTransfers::schedule_phase(const ConfigClock& when, NicTransfer& transfer) {
  node_state_.engine.schedule(std::max(when.first(), node_state_.engine.now()), &run_phase<phase>, &transfer);
}

void NicTransfers::send(const NicTransfer& transfer) {
  NicTransfer& own_transfer = *pool_.acquire();
  own_transfer = transfer;
  own_transfer.node_transfers = this;
  own_transfer.start = transfer.from->now();
  if (Schedule* const schedule = transfer.from->schedule())
    own_transfer.origin = schedule->add_send(own_transfer.start, transfer.to->rank(), transfer.bytes);
  schedule_phase<&NicTransfers::inject_into_network>(own_transfer.start, own_transfer);
}

void NicTransfers::inject_into_network(NicTransfer& transfer) {
  Nic& nic = transfer.from->nic();
  const Ps posted = transfer.start.first();
  if (transfer.command_entry) transfer.start = nic.fetch_command(transfer.command_entry, transfer.start);
  ConfigClock read_time(node_state_.cluster.num_variants);
  if (transfer.source && transfer.bytes > 0) {
    const auto reading = nic.read_payload(transfer.source, transfer.bytes, transfer.start);
    transfer.start = reading.first;
    read_time = reading.last - reading.first;
  }
  transfer.latency = transfer.start.first() - posted;
  const MessageTimes message_times =
      node_state_.cluster.network->inject_message(node_state_.number, transfer.bytes, transfer.start, read_time);
  const Message& message = *transfer.message;
  departed_transfers_.push_back({node_state_.engine.now(), message_times, message, message.peer_message, transfer});
  transfer.departure_time = message_times.departure;
  schedule_phase<&NicTransfers::leave_nic>(transfer.departure_time, transfer);
}

void NicTransfers::schedule_arrival(const DepartedTransfer& departed, const MessageTimes& message_times, Ps when) {
  NicTransfer& own_transfer = *pool_.acquire();
  own_transfer = departed.transfer;
  own_transfer.node_transfers = this;
  own_transfer.first_byte_arrival = message_times.first_byte_arrival;
  own_transfer.last_byte_arrival = message_times.last_byte_arrival;
  own_transfer.latency += node_state_.cluster.network->latency_over_hops(message_times.hops);
  own_transfer.message = departed.remote_message ? departed.remote_message : &make_receiver_message(departed.envelope);
  own_transfer.message->peer_message = departed.transfer.message;
  node_state_.engine.schedule_from_remote(when, &run_phase<&NicTransfers::arrive_at_nic>, &own_transfer);
}

Message& NicTransfers::make_receiver_message(const Envelope& envelope) {
  Message& message = *node_state_.messages.acquire();
  message = Message{};
  static_cast<Envelope&>(message) = envelope;
  message.protocol = &node_state_.protocol_between_nodes(message.bytes, message.is_synchronous);
  return message;
}

void NicTransfers::leave_nic(NicTransfer& transfer) {
  Message& message = *transfer.message;
  if (transfer.departure_packet) {
    const auto event =
        transfer.from->nic().answer_command(transfer.from->core(), transfer.command_entry, transfer.departure_time);
    ProtocolPacket* const packet = transfer.from->make_packet(message, *transfer.departure_packet);
    packet->polled_line = event.entry;
    packet->is_nic_event = true;
    packet->visible_time = event.visible_time;
    packet->origin = transfer.origin;
    transfer.from->deliver_packet(packet);
  }
  message.protocol->handle_payload_read(transfer);
  pool_.release(&transfer);
}

void NicTransfers::arrive_at_nic(NicTransfer& transfer) {
  if (!transfer.is_placed_on_arrival) return begin_write(transfer, transfer.target, transfer.first_byte_arrival);
  const auto landing = transfer.message->protocol->choose_payload_target(*transfer.to, *transfer.message, transfer);
  if (landing)
    begin_write(transfer, landing->address, landing->start);
  else
    transfer.message->held_transfer = &transfer;
}

void NicTransfers::write_held(NicTransfer& transfer, Address target, const ConfigClock& start) {
  transfer.message->held_transfer = nullptr;
  begin_write(transfer, target, later(transfer.first_byte_arrival, start));
}

void NicTransfers::begin_write(NicTransfer& transfer, Address target, const ConfigClock& start) {
  transfer.target = target;
  transfer.first_byte_arrival = start;
  transfer.last_byte_arrival = later(transfer.last_byte_arrival, start);
  transfer.nic_arrival = transfer.last_byte_arrival.first();
  write_piece(transfer);
}

// Writes the next piece of the payload when the first byte of the piece has arrived. This is also called for a message
// without payload, since its header must not overtake messages that arrived earlier.
void NicTransfers::write_piece(NicTransfer& transfer) {
  const std::uint64_t bytes = transfer.target ? transfer.bytes : 0;
  const Address begin = transfer.target + transfer.written_bytes,
                piece_end = (begin / max_piece_bytes + 1) * max_piece_bytes;
  const std::uint64_t piece = std::min(piece_end - begin, bytes - transfer.written_bytes);
  const ConfigClock start = next_byte_arrival(transfer, bytes);
  transfer.written_bytes += piece;
  const ConfigClock done = transfer.to->nic().write_payload(transfer.to->core(), begin, piece, transfer.message->bytes,
                                                            start, next_byte_arrival(transfer, bytes));
  if (transfer.written_bytes < bytes)
    return schedule_phase<&NicTransfers::write_piece>(next_byte_arrival(transfer, bytes), transfer);
  transfer.last_byte_arrival = done;
  schedule_phase<&NicTransfers::notify_receiver>(transfer.last_byte_arrival, transfer);
}

void NicTransfers::notify_receiver(NicTransfer& transfer) {
  if (transfer.arrival_packet) {
    ProtocolPacket* const packet = transfer.to->make_packet(*transfer.message, *transfer.arrival_packet);
    packet->offset = transfer.part_offset;
    packet->bytes = transfer.part_bytes;
    packet->target = transfer.part_target;
    packet->visible_time = transfer.last_byte_arrival;
    if (!transfer.is_silent) {
      const auto event = transfer.to->nic().write_event(transfer.to->core(), transfer.last_byte_arrival);
      packet->polled_line = event.entry;
      packet->is_nic_event = true;
      packet->visible_time = event.visible_time;
    }
    packet->origin = transfer.origin;
    packet->latency = transfer.latency + packet->visible_time.first() - transfer.nic_arrival;
    transfer.to->deliver_packet(packet);
  }
  pool_.release(&transfer);
}

}  // namespace nearfield::sim

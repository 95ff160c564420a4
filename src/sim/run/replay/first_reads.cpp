#include "sim/run/replay/first_reads.hpp"

#include <algorithm>
#include <utility>

namespace nearfield::sim::replay {
namespace {

// Calls each(address, bytes) for the contiguous pieces of the first `bytes` of a buffer.
template <class Each>
void for_each_piece(const Buffer& buffer, std::uint64_t bytes, Each each) {
  std::uint64_t offset = 0;
  while (offset < bytes) {
    AddressRange piece;
    if (buffer.scattered)
      piece = buffer.scattered->run_at(buffer.address, offset);
    else if (buffer.is_contiguous())
      piece = {buffer.address, bytes};
    else
      piece = {buffer.address + offset / buffer.block_bytes * buffer.stride_bytes, buffer.block_bytes};
    piece.bytes = std::min(piece.bytes, bytes - offset);
    each(piece.address, piece.bytes);
    offset += piece.bytes;
  }
}

}  // namespace

void FirstReads::add_message(const CallKey& call, const Buffer& buffer, std::uint64_t bytes, Ps arrived, Ps completed) {
  if (bytes == 0) return;
  for_each_piece(buffer, bytes, [&](Address address, std::uint64_t size) {
    while (const auto before = find_message(address, size)) record_overwritten(*before);
  });
  ReceivedData& received = received_[call];
  ++received.messages;
  ++received.unread_messages;
  received.bytes += bytes;
  Message message{call, bytes, std::min(arrived, completed), completed, {}};
  for_each_piece(buffer, bytes, [&](Address address, std::uint64_t size) {
    pieces_.insert_or_assign(address, Piece{address + size, next_});
    message.pieces.push_back(address);
  });
  messages_.emplace(next_++, std::move(message));
}

std::optional<FirstReads::MessageId> FirstReads::find_message(Address address, std::uint64_t bytes) const {
  const auto after = pieces_.lower_bound(address + bytes);
  if (after == pieces_.begin()) return {};
  const Piece& last = std::prev(after)->second;
  return last.end > address ? std::optional(last.message) : std::nullopt;
}

FirstReads::MessageId FirstReads::begin_read(MessageId id) {
  for (const Address piece : std::exchange(messages_.at(id).pieces, {})) pieces_.erase(piece);
  return id;
}

void FirstReads::record_read(MessageId id, Ps now) {
  begin_read(id);
  const Message& message = messages_.at(id);
  ReceivedData& received = received_[message.call];
  --received.unread_messages;
  received.in_mpi += message.completed - message.arrived;
  received.until_read += std::max(0.0, now - message.completed);
  received.byte_time += static_cast<double>(message.bytes) * std::max(0.0, now - message.arrived);
  messages_.erase(id);
}

void FirstReads::record_overwritten(MessageId id) {
  begin_read(id);
  messages_.erase(id);
}

void FirstReads::record_read(const Buffer& buffer, Ps now) {
  if (!has_unread()) return;
  for_each_piece(buffer, buffer.bytes(), [&](Address address, std::uint64_t bytes) {
    while (const auto message = find_message(address, bytes)) record_read(*message, now);
  });
}

ReceivedData FirstReads::received_by(const CallKey& call) const {
  const auto found = received_.find(call);
  return found == received_.end() ? ReceivedData() : found->second;
}

}  // namespace nearfield::sim::replay

#include "sim/run/replay/first_reads.hpp"

#include <algorithm>
#include <iterator>

namespace nearfield::sim::replay {
namespace {

// Calls function(address, bytes) for the contiguous pieces of the first `bytes` of a buffer.
template <class Function>
void for_each_piece(const Buffer& buffer, std::uint64_t bytes, Function function) {
  std::uint64_t offset = 0;
  while (offset < bytes) {
    AddressRange piece;
    if (buffer.scattered_layout)
      piece = buffer.scattered_layout->contiguous_range_at(buffer.address, offset);
    else if (buffer.is_contiguous())
      piece = {buffer.address, bytes};
    else
      piece = {buffer.address + offset / buffer.block_bytes * buffer.stride_bytes, buffer.block_bytes};
    piece.bytes = std::min(piece.bytes, bytes - offset);
    function(piece.address, piece.bytes);
    offset += piece.bytes;
  }
}

}  // namespace

void FirstReads::add_message(const CallKey& call, const Buffer& buffer, std::uint64_t bytes, Ps arrival_time,
                             Ps completion_time) {
  if (bytes == 0) return;
  arrival_time = std::min(arrival_time, completion_time);
  ReceivedData& received = received_by_call_[call];
  ++received.messages;
  received.bytes += bytes;
  received.time_in_mpi += completion_time - arrival_time;
  for_each_piece(buffer, bytes, [&](Address address, std::uint64_t size) {
    while (take_unread_line(address, size)) continue;
    for (const Address end = address + size; address < end;) {
      const Address line_end = std::min(end, (address / line_bytes_ + 1) * line_bytes_);
      unread_lines_.insert_or_assign(address, UnreadLine{address, line_end, call, arrival_time, completion_time});
      address = line_end;
    }
  });
}

std::optional<UnreadLine> FirstReads::take_unread_line(Address address, std::uint64_t bytes) {
  const auto next_line = unread_lines_.lower_bound(address + bytes);
  if (next_line == unread_lines_.begin()) return {};
  const auto last = std::prev(next_line);
  if (last->second.end <= address) return {};
  const UnreadLine line = last->second;
  unread_lines_.erase(last);
  return line;
}

void FirstReads::record_read(const UnreadLine& line, Ps now) {
  ReceivedData& received = received_by_call_[line.call];
  const auto bytes = static_cast<double>(line.end - line.begin);
  received.read_bytes += line.end - line.begin;
  received.byte_time_until_read += bytes * std::max(0.0, now - line.completion_time);
  received.byte_time += bytes * std::max(0.0, now - line.arrival_time);
}

void FirstReads::record_read(const Buffer& buffer, Ps now) {
  if (!has_unread_lines()) return;
  for_each_piece(buffer, buffer.bytes(), [&](Address address, std::uint64_t bytes) {
    while (const auto line = take_unread_line(address, bytes)) record_read(*line, now);
  });
}

ReceivedData FirstReads::received_by(const CallKey& call) const {
  const auto entry = received_by_call_.find(call);
  return entry == received_by_call_.end() ? ReceivedData() : entry->second;
}

}  // namespace nearfield::sim::replay

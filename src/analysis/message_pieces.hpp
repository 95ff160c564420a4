// The contiguous pieces of a message's data in memory, in the order of its datatype, and the cache lines of these
// pieces.
#pragma once

#include <algorithm>
#include <cstdint>

#include "analysis/message_lines.hpp"
#include "trace/stream/events.hpp"

namespace nearfield::advise {

// Returns whether elements of the datatype lie one after the other without gaps.
bool is_contiguous(const stream::Layout& layout);

// Calls visit(address, bytes) for each contiguous piece of the data, until the pieces add up to `max_bytes`.
template <class Visit>
void for_each_piece(const stream::Data& data, const stream::Layout& layout, std::uint64_t max_bytes, Visit visit) {
  const auto visit_piece = [&](std::uint64_t address, std::uint64_t bytes) {
    const std::uint64_t visited_bytes = std::min(bytes, max_bytes);
    if (visited_bytes > 0) visit(address, visited_bytes);
    max_bytes -= visited_bytes;
  };
  if (is_contiguous(layout))
    return visit_piece(data.address + static_cast<std::uint64_t>(layout.runs[0].offset_bytes),
                       data.count * layout.runs[0].bytes);
  for (stream::Number element = 0; element < data.count && max_bytes > 0; ++element) {
    const std::uint64_t base = data.address + element * static_cast<std::uint64_t>(layout.extent_bytes);
    for (const stream::LayoutRun& run : layout.runs)
      for (stream::Number block = 0; block < run.count && max_bytes > 0; ++block)
        visit_piece(
            base + static_cast<std::uint64_t>(run.offset_bytes + static_cast<std::int64_t>(block) * run.stride_bytes),
            run.bytes);
  }
}

// Calls visit(line) with the number of each cache line of the data. A line that two successive pieces share is visited
// once.
template <class Visit>
void for_each_line(const stream::Data& data, const stream::Layout& layout, std::uint64_t max_bytes, Visit visit) {
  std::uint64_t next = 0;
  for_each_piece(data, layout, max_bytes, [&](std::uint64_t address, std::uint64_t bytes) {
    const std::uint64_t last = (address + bytes - 1) / cache_line_bytes;
    std::uint64_t line = address / cache_line_bytes;
    if (next != 0 && line == next - 1) ++line;
    for (; line <= last; ++line) visit(line);
    next = last + 1;
  });
}

// The beginning of a message in memory.
struct MessageShape {
  std::uint64_t address = 0, piece_bytes = 0;
  std::int64_t stride_bytes = 0;
};

// Returns the address of the first byte, the length of the first contiguous piece, and the distance in bytes from the
// start of that piece to the start of the second piece (0 if there is none).
MessageShape shape_of_message(const stream::Data& data, const stream::Layout& layout, std::uint64_t bytes);

}  // namespace nearfield::advise

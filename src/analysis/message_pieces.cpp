#include "analysis/message_pieces.hpp"

namespace nearfield::advise {

using namespace stream;

bool is_contiguous(const Layout& layout) {
  return layout.runs.size() == 1 && layout.runs[0].count == 1 && layout.extent_bytes >= 0 &&
         layout.runs[0].bytes == static_cast<Number>(layout.extent_bytes);
}

MessageShape message_shape(const Data& data, const Layout& layout, std::uint64_t bytes) {
  MessageShape shape;
  std::uint64_t begin = 0, end = 0;
  bool second = false;
  const auto piece = [&](std::uint64_t address, std::uint64_t size) {
    if (end == 0) {
      shape = {address, size, 0};
      begin = address;
    } else if (address == end && !second) {
      shape.piece_bytes += size;
    } else if (!second) {
      second = true;
      shape.stride_bytes = static_cast<std::int64_t>(address - begin);
    }
    end = address + size;
  };
  constexpr std::uint64_t enough = 1 << 16;  // examined elements of the datatype
  Data few = data;
  few.count = std::min<Number>(few.count, enough);
  for_each_piece(is_contiguous(layout) ? data : few, layout, bytes, piece);
  return shape;
}

}  // namespace nearfield::advise

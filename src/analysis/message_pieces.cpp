#include "analysis/message_pieces.hpp"

namespace nearfield::advise {

using namespace stream;

bool is_contiguous(const Layout& layout) {
  return layout.runs.size() == 1 && layout.runs[0].count == 1 && layout.extent_bytes >= 0 &&
         layout.runs[0].bytes == static_cast<Number>(layout.extent_bytes);
}

MessageShape shape_of_message(const Data& data, const Layout& layout, std::uint64_t bytes) {
  MessageShape shape;
  std::uint64_t begin = 0, end = 0;
  bool has_second_piece = false;
  const auto add_piece = [&](std::uint64_t address, std::uint64_t size) {
    if (end == 0) {
      shape = {address, size, 0};
      begin = address;
    } else if (address == end && !has_second_piece) {
      shape.piece_bytes += size;
    } else if (!has_second_piece) {
      has_second_piece = true;
      shape.stride_bytes = static_cast<std::int64_t>(address - begin);
    }
    end = address + size;
  };
  constexpr std::uint64_t max_elements = 1 << 16;  // examined elements of the datatype
  Data first_elements = data;
  first_elements.count = std::min<Number>(first_elements.count, max_elements);
  for_each_piece(is_contiguous(layout) ? data : first_elements, layout, bytes, add_piece);
  return shape;
}

}  // namespace nearfield::advise

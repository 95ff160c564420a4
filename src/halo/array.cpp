#include "halo/array.hpp"

namespace nearfield::halo {

Shape shape_of(const Box& box, int low_ghosts, std::size_t cell_bytes) {
  constexpr std::size_t line = 64;
  const auto spread = [](std::size_t bytes) { return bytes % 4096 == 0 ? bytes + line : bytes; };
  const auto extents = box.extents();
  Shape shape;
  shape.lead = (line - static_cast<std::size_t>(low_ghosts) * cell_bytes % line) % line;
  const auto row = (shape.lead + static_cast<std::size_t>(extents[2]) * cell_bytes + line - 1) / line * line;
  const auto rows = spread(row);
  const auto planes = spread(rows * static_cast<std::size_t>(extents[1]));
  shape.strides = {static_cast<Index>(planes), static_cast<Index>(rows), static_cast<Index>(cell_bytes)};
  shape.bytes = planes * static_cast<std::size_t>(extents[0]) + line;
  return shape;
}

}  // namespace nearfield::halo

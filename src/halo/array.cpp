#include "halo/array.hpp"

namespace nearfield::halo {

Shape shape_of(const Box& box, int low_ghosts, std::size_t cell_bytes) {
  constexpr std::size_t line = 64;
  // Neighbouring rows and planes must not meet in the same sets of a cache. Planes are whole rows, as in Fortran
  // arrays.
  const auto spread = [](std::size_t bytes, std::size_t by) { return bytes % 4096 == 0 ? bytes + by : bytes; };
  const auto extents = box.extents();
  Shape shape;
  shape.lead = (line - static_cast<std::size_t>(low_ghosts) * cell_bytes % line) % line;
  const auto row = (shape.lead + static_cast<std::size_t>(extents[2]) * cell_bytes + line - 1) / line * line;
  const auto rows = spread(row, line);
  const auto planes = spread(rows * static_cast<std::size_t>(extents[1]), rows);
  shape.strides = {static_cast<Index>(planes), static_cast<Index>(rows), static_cast<Index>(cell_bytes)};
  shape.bytes = planes * static_cast<std::size_t>(extents[0]) + line;
  return shape;
}

}  // namespace nearfield::halo

// The cells of a rank, with ghost cells, or of an island in memory.
#pragma once

#include "halo/copy.hpp"

namespace nearfield::halo {

/// Cells of `box` (in the grid's coordinates, ghost cells beyond the edge included) at any strides. Does not own them.
struct Array {
  Box box;
  std::byte* first = nullptr;  ///< the cell at box.lo
  Triple strides{};            ///< bytes
  std::size_t cell_bytes = 0;
  Type type = Type::f64;

  Place at(const Triple& cell) const {
    std::byte* address = first;
    for (int d = 0; d < 3; ++d) address += (cell[d] - box.lo[d]) * strides[d];
    return {address, strides};
  }
};

/// The layout of the library's own arrays: rows begin on cache lines of their own if ghost cells allow it, and neither
/// rows nor planes are multiples of 4 KiB apart, which would put them into the same sets of the caches.
struct Shape {
  Triple strides{};
  std::size_t lead = 0;   ///< bytes before the cell at box.lo
  std::size_t bytes = 0;  ///< altogether
};
Shape shape_of(const Box& box, int low_ghosts, std::size_t cell_bytes);

}  // namespace nearfield::halo

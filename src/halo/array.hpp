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

  Strided at(const Triple& cell) const {
    std::byte* address = first;
    for (int d = 0; d < 3; ++d) address += (cell[d] - box.lo[d]) * strides[d];
    return {address, strides};
  }
  /// Copies a box of cells from elsewhere to `cell` and what follows it, or adds them to what is there.
  void put(const Triple& cell, const Strided& from, const Triple& extents_of_box, bool adds) const {
    if (adds)
      add_box(at(cell), from, extents_of_box, cell_bytes, type);
    else
      copy_box(at(cell), from, extents_of_box, cell_bytes);
  }
};

}  // namespace nearfield::halo

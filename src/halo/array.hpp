// The cells of a rank or of a shared-array group in memory, with ghost cells.
#pragma once

#include "halo/copy.hpp"

namespace nearfield::halo {

/// Cells of `box` (in the grid's coordinates, including ghost cells beyond its edge) with arbitrary strides. Not
/// owning.
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
  /// Copies a box of cells from another array to `cell` and the cells after it, or adds them.
  void put(const Triple& cell, const Strided& from, const Triple& extents_of_box, bool adds) const {
    if (adds)
      add_box(at(cell), from, extents_of_box, cell_bytes, type);
    else
      copy_box(at(cell), from, extents_of_box, cell_bytes);
  }
};

}  // namespace nearfield::halo

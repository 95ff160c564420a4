// An array of cells in memory, with ghost cells: the array of one rank, or an array that a group of ranks shares.
#pragma once

#include "halo/copy.hpp"

namespace nearfield::halo {

/// The cells of `box` in memory with arbitrary strides. `box` is in grid coordinates and includes ghost cells, also
/// beyond the edge of the grid. Does not own the memory.
struct Array {
  Box box;
  std::byte* first = nullptr;  ///< address of the cell at box.lo
  Triple strides{};            ///< bytes per step in each dimension
  std::size_t cell_bytes = 0;
  NumberType type = NumberType::f64;

  StridedCells at(const Triple& cell) const {
    std::byte* address = first;
    for (int d = 0; d < 3; ++d) address += (cell[d] - box.lo[d]) * strides[d];
    return {address, strides};
  }
  /// Copies the box of cells `from` into this array, at the box of the same extents whose low corner is `cell`. With
  /// `should_add`, adds the numbers instead.
  void copy_or_add(const Triple& cell, const StridedCells& from, const Triple& extents_of_box, bool should_add) const {
    if (should_add)
      add_box(at(cell), from, extents_of_box, cell_bytes, type);
    else
      copy_box(at(cell), from, extents_of_box, cell_bytes);
  }
};

}  // namespace nearfield::halo

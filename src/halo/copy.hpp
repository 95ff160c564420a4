// Copies boxes of cells between arrays with arbitrary strides: to pack, to unpack, or to copy the cells of an exchange
// directly.
#pragma once

#include <cstddef>

#include "halo/box.hpp"

namespace nearfield::halo {

/// The type of the numbers in a cell, in the order of nf_type.
enum class NumberType { i8, u8, i16, u16, i32, u32, i64, u64, f32, f64 };
std::size_t bytes_of_number(NumberType type);

/// Cells with arbitrary strides: the address of the first cell, and the bytes between adjacent cells in each dimension.
struct StridedCells {
  std::byte* first = nullptr;
  Triple strides{};
};

/// Copies a box of `extents` cells per dimension, of `cell_bytes` bytes each. Source and target must not overlap.
void copy_box(const StridedCells& to, const StridedCells& from, const Triple& extents, std::size_t cell_bytes);

/// Adds the numbers in the source cells to those in the target cells. A cell has one or more numbers of `type`.
void add_box(const StridedCells& to, const StridedCells& from, const Triple& extents, std::size_t cell_bytes,
             NumberType type);

/// Returns the strided view of a box of cells that are stored contiguously from `first` on.
StridedCells packed_cells(std::byte* first, const Triple& extents, std::size_t cell_bytes);

}  // namespace nearfield::halo

// Copies boxes of cells between memory of any strides: the packing, unpacking and direct copying of the exchange.
#pragma once

#include <cstddef>

#include "halo/box.hpp"

namespace nearfield::halo {

/// The type of the numbers in a cell, for adding.
enum class Type { i8, u8, i16, u16, i32, u32, i64, u64, f32, f64 };
std::size_t bytes_of(Type type);

/// Cells at any strides in memory: the address of the first, and the bytes from one to the next in each dimension.
struct Strided {
  std::byte* first = nullptr;
  Triple strides{};
};

/// Copies cells of `cell_bytes` each, extents per dimension. Source and target must not overlap.
void copy_box(const Strided& to, const Strided& from, const Triple& extents, std::size_t cell_bytes);

/// Adds cells to those of the target. A cell is one or more numbers of `type`.
void add_box(const Strided& to, const Strided& from, const Triple& extents, std::size_t cell_bytes, Type type);

/// Returns the cells of a box that lies in contiguous memory without gaps.
Strided packed(std::byte* first, const Triple& extents, std::size_t cell_bytes);

}  // namespace nearfield::halo

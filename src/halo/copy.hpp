// Copies boxes of cells between memory with arbitrary strides, for packing, unpacking and direct copies of an exchange.
#pragma once

#include <cstddef>

#include "halo/box.hpp"

namespace nearfield::halo {

/// The type of the numbers in a cell, for additions.
enum class Type { i8, u8, i16, u16, i32, u32, i64, u64, f32, f64 };
std::size_t bytes_of(Type type);

/// Cells with arbitrary strides: the address of the first, and the distance in bytes in each dimension.
struct Strided {
  std::byte* first = nullptr;
  Triple strides{};
};

/// Copies cells of `cell_bytes` each; extents per dimension. Source and target must not overlap.
void copy_box(const Strided& to, const Strided& from, const Triple& extents, std::size_t cell_bytes);

/// Adds cells to the target's. A cell is one or more numbers of `type`.
void add_box(const Strided& to, const Strided& from, const Triple& extents, std::size_t cell_bytes, Type type);

/// Returns the cells of a box that is contiguous in memory.
Strided packed(std::byte* first, const Triple& extents, std::size_t cell_bytes);

}  // namespace nearfield::halo

// Copies boxes of cells between memory of any strides: the packing, unpacking and direct copying of the exchange.
#pragma once

#include <cstddef>

#include "halo/box.hpp"

namespace nearfield::halo {

/// What a cell is made of, for adding.
enum class Type { i8, u8, i16, u16, i32, u32, i64, u64, f32, f64 };
std::size_t bytes_of(Type type);

/// Cells in memory: the address of the first, bytes from one to the next in each dimension.
struct Place {
  std::byte* first = nullptr;
  Triple strides{};
};

/// `cell_bytes` each, extents per dimension. Source and target must not overlap.
void copy_box(const Place& to, const Place& from, const Triple& extents, std::size_t cell_bytes);

/// The same, adding to what is there. A cell is one or more numbers of `type`.
void add_box(const Place& to, const Place& from, const Triple& extents, std::size_t cell_bytes, Type type);

/// The place of a box that lies in contiguous memory without gaps.
Place packed(std::byte* first, const Triple& extents, std::size_t cell_bytes);

}  // namespace nearfield::halo

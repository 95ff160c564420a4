#include "halo/copy.hpp"

#include <cstdint>
#include <cstring>

namespace nearfield::halo {
namespace {

// A function that copies or adds one run of cells of the innermost dimension: (to, to_stride, from, from_stride, cells,
// cell_bytes), strides in bytes. There is one per cell size, so that the size is a compile-time constant.
using RunFunction = void (*)(std::byte*, Index, const std::byte*, Index, Index, std::size_t);

template <class T>
void copy_strided(std::byte* to, Index to_stride, const std::byte* from, Index from_stride, Index cells, std::size_t) {
  for (Index i = 0; i < cells; ++i) {
    T value;
    std::memcpy(&value, from + i * from_stride, sizeof value);
    std::memcpy(to + i * to_stride, &value, sizeof value);
  }
}

void copy_strided_bytes(std::byte* to, Index to_stride, const std::byte* from, Index from_stride, Index cells,
                        std::size_t bytes) {
  for (Index i = 0; i < cells; ++i) std::memcpy(to + i * to_stride, from + i * from_stride, bytes);
}

void copy_contiguous(std::byte* to, Index, const std::byte* from, Index, Index cells, std::size_t bytes) {
  std::memcpy(to, from, static_cast<std::size_t>(cells) * bytes);
}

template <class T>
void add_strided(std::byte* to, Index to_stride, const std::byte* from, Index from_stride, Index cells,
                 std::size_t bytes) {
  for (Index i = 0; i < cells; ++i)
    for (std::size_t part = 0; part < bytes; part += sizeof(T)) {
      T sum, value;
      std::memcpy(&sum, to + i * to_stride + part, sizeof sum);
      std::memcpy(&value, from + i * from_stride + part, sizeof value);
      sum = static_cast<T>(sum + value);
      std::memcpy(to + i * to_stride + part, &sum, sizeof sum);
    }
}

RunFunction select_copy_function(const StridedCells& to, const StridedCells& from, int d, std::size_t bytes) {
  const auto dense = static_cast<Index>(bytes);
  if (to.strides[d] == dense && from.strides[d] == dense) return copy_contiguous;
  if (bytes == 1) return copy_strided<std::uint8_t>;
  if (bytes == 2) return copy_strided<std::uint16_t>;
  if (bytes == 4) return copy_strided<std::uint32_t>;
  return bytes == 8 ? copy_strided<std::uint64_t> : copy_strided_bytes;
}

RunFunction select_add_function(NumberType type) {
  static constexpr RunFunction functions[] = {
      add_strided<std::int8_t>,  add_strided<std::uint8_t>,  add_strided<std::int16_t>, add_strided<std::uint16_t>,
      add_strided<std::int32_t>, add_strided<std::uint32_t>, add_strided<std::int64_t>, add_strided<std::uint64_t>,
      add_strided<float>,        add_strided<double>};
  return functions[static_cast<int>(type)];
}

// Returns the dimension of the innermost loop: the last dimension, unless it has only a few cells, as in a face normal
// to it, and the middle dimension has more.
int innermost_dimension(const Triple& extents) { return extents[2] >= 4 || extents[2] >= extents[1] ? 2 : 1; }

void for_each_run(const StridedCells& to, const StridedCells& from, const Triple& extents, std::size_t bytes, int inner,
                  RunFunction run) {
  const int middle = inner == 2 ? 1 : 2;
  for (Index i = 0; i < extents[0]; ++i)
    for (Index j = 0; j < extents[middle]; ++j)
      run(to.first + i * to.strides[0] + j * to.strides[middle], to.strides[inner],
          from.first + i * from.strides[0] + j * from.strides[middle], from.strides[inner], extents[inner], bytes);
}

}  // namespace

std::size_t bytes_of_number(NumberType type) {
  static constexpr std::size_t sizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8};
  return sizes[static_cast<int>(type)];
}

void copy_box(const StridedCells& to, const StridedCells& from, const Triple& extents, std::size_t cell_bytes) {
  const auto row = extents[2] * static_cast<Index>(cell_bytes);
  const auto dense = static_cast<Index>(cell_bytes);
  if (to.strides[2] == dense && from.strides[2] == dense && to.strides[1] == row && from.strides[1] == row) {
    const Triple joined{extents[0], 1, extents[1] * extents[2]};  // whole planes are contiguous: one run per plane
    return for_each_run(to, from, joined, cell_bytes, 2, copy_contiguous);
  }
  const int inner = innermost_dimension(extents);
  for_each_run(to, from, extents, cell_bytes, inner, select_copy_function(to, from, inner, cell_bytes));
}

void add_box(const StridedCells& to, const StridedCells& from, const Triple& extents, std::size_t cell_bytes,
             NumberType type) {
  for_each_run(to, from, extents, cell_bytes, 2, select_add_function(type));
}

StridedCells packed_cells(std::byte* first, const Triple& extents, std::size_t cell_bytes) {
  const auto cell = static_cast<Index>(cell_bytes);
  return {first, {extents[1] * extents[2] * cell, extents[2] * cell, cell}};
}

}  // namespace nearfield::halo

#include "halo/message.hpp"

namespace nearfield::halo {

std::size_t message_bytes(const std::vector<Strip>& strips, const std::vector<FieldArrays>& fields) {
  std::size_t bytes = 0;
  for (const auto& field : fields)
    for (const auto& strip : strips)
      bytes += static_cast<std::size_t>(strip.local_box.num_cells()) * field.local_array.cell_bytes;
  return bytes;
}

void pack_strips(std::byte* buffer, const std::vector<Strip>& strips, const std::vector<FieldArrays>& fields) {
  for (const auto& [local_array, neighbor_arrays] : fields)
    for (const auto& strip : strips) {
      const auto extents = strip.extents();
      copy_box(packed_cells(buffer, extents, local_array.cell_bytes), local_array.at(strip.local_box.lo), extents,
               local_array.cell_bytes);
      buffer += static_cast<std::size_t>(strip.local_box.num_cells()) * local_array.cell_bytes;
    }
}

void unpack_strips(const std::byte* buffer, const std::vector<Strip>& strips, const std::vector<FieldArrays>& fields,
                   bool should_add) {
  for (const auto& [local_array, neighbor_arrays] : fields)
    for (const auto& strip : strips) {
      const auto extents = strip.extents();
      local_array.copy_or_add(strip.local_box.lo,
                              packed_cells(const_cast<std::byte*>(buffer), extents, local_array.cell_bytes), extents,
                              should_add);
      buffer += static_cast<std::size_t>(strip.local_box.num_cells()) * local_array.cell_bytes;
    }
}

std::byte* contiguous_address(const std::vector<Strip>& strips, const std::vector<FieldArrays>& fields) {
  if (strips.size() != 1 || fields.size() != 1) return nullptr;
  const auto& array = fields[0].local_array;
  const auto extents = strips[0].extents();
  auto dense = static_cast<Index>(array.cell_bytes);
  for (int d = 2; d >= 0; --d) {
    if (extents[d] > 1 && array.strides[d] != dense) return nullptr;
    dense *= extents[d];
  }
  return array.at(strips[0].local_box.lo).first;
}

}  // namespace nearfield::halo

#include "halo/message.hpp"

namespace nearfield::halo {

std::size_t message_bytes(const std::vector<Strip>& strips, const std::vector<FieldArrays>& fields) {
  std::size_t bytes = 0;
  for (const auto& field : fields)
    for (const auto& strip : strips) bytes += static_cast<std::size_t>(strip.mine.cells()) * field.mine.cell_bytes;
  return bytes;
}

void pack_strips(std::byte* buffer, const std::vector<Strip>& strips, const std::vector<FieldArrays>& fields) {
  for (const auto& [mine, others] : fields)
    for (const auto& strip : strips) {
      const auto extents = strip.extents();
      copy_box(packed_cells(buffer, extents, mine.cell_bytes), mine.at(strip.mine.lo), extents, mine.cell_bytes);
      buffer += static_cast<std::size_t>(strip.mine.cells()) * mine.cell_bytes;
    }
}

void unpack_strips(const std::byte* buffer, const std::vector<Strip>& strips, const std::vector<FieldArrays>& fields,
                   bool add) {
  for (const auto& [mine, others] : fields)
    for (const auto& strip : strips) {
      const auto extents = strip.extents();
      mine.copy_or_add(strip.mine.lo, packed_cells(const_cast<std::byte*>(buffer), extents, mine.cell_bytes), extents,
                       add);
      buffer += static_cast<std::size_t>(strip.mine.cells()) * mine.cell_bytes;
    }
}

std::byte* contiguous_address(const std::vector<Strip>& strips, const std::vector<FieldArrays>& fields) {
  if (strips.size() != 1 || fields.size() != 1) return nullptr;
  const auto& array = fields[0].mine;
  const auto extents = strips[0].extents();
  auto dense = static_cast<Index>(array.cell_bytes);
  for (int d = 2; d >= 0; --d) {
    if (extents[d] > 1 && array.strides[d] != dense) return nullptr;
    dense *= extents[d];
  }
  return array.at(strips[0].mine.lo).first;
}

}  // namespace nearfield::halo

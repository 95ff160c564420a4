#include "halo/datatype.hpp"

#include <climits>

namespace nearfield::halo {
namespace {

constexpr Index elements_per_block = 1 << 30;

MPI_Aint byte_distance(const std::byte* address, const std::byte* origin) {
  MPI_Aint to, from;
  MPI_Get_address(address, &to);
  MPI_Get_address(origin, &from);
  return MPI_Aint_diff(to, from);
}

MPI_Datatype create_struct_type(const std::vector<MPI_Datatype>& parts, const std::vector<MPI_Aint>& places) {
  const std::vector<int> ones(parts.size(), 1);
  MPI_Datatype combined_type;
  MPI_Type_create_struct(static_cast<int>(parts.size()), ones.data(), places.data(), parts.data(), &combined_type);
  return combined_type;
}

// Returns a datatype of `count` elements of type `part`, `stride_bytes` apart. More than INT_MAX elements are grouped
// into blocks.
MPI_Datatype create_repeated_type(Index count, Index stride_bytes, MPI_Datatype part) {
  MPI_Datatype combined_type;
  if (count <= INT_MAX) {
    MPI_Aint first = 0, extent = 0;
    MPI_Type_get_extent(part, &first, &extent);
    if (extent == stride_bytes)
      MPI_Type_contiguous(static_cast<int>(count), part, &combined_type);
    else
      MPI_Type_create_hvector(static_cast<int>(count), 1, stride_bytes, part, &combined_type);
    return combined_type;
  }
  const Index blocks = count / elements_per_block;
  std::vector<MPI_Datatype> inner{create_repeated_type(elements_per_block, stride_bytes, part)};
  std::vector<MPI_Datatype> parts{create_repeated_type(blocks, elements_per_block * stride_bytes, inner[0]),
                                  create_repeated_type(count % elements_per_block, stride_bytes, part)};
  combined_type = create_struct_type(parts, {0, static_cast<MPI_Aint>(blocks * elements_per_block * stride_bytes)});
  free_types(inner);
  free_types(parts);
  return combined_type;
}

}  // namespace

MPI_Datatype create_strips_type(const std::vector<Strip>& strips, const std::vector<FieldArrays>& fields,
                                const std::byte* origin) {
  std::vector<MPI_Datatype> parts;
  std::vector<MPI_Aint> places;
  for (const auto& [local_array, neighbor_arrays] : fields)
    for (const auto& strip : strips) {
      const auto extents = strip.extents();
      std::vector<MPI_Datatype> inner{create_repeated_type(static_cast<Index>(local_array.cell_bytes), 1, MPI_BYTE)};
      for (int d = 2; d >= 0; --d)
        inner.push_back(create_repeated_type(extents[d], local_array.strides[d], inner.back()));
      parts.push_back(inner.back());
      inner.pop_back();
      free_types(inner);
      places.push_back(byte_distance(local_array.at(strip.local_box.lo).first, origin));
    }
  MPI_Datatype combined_type = create_struct_type(parts, places);
  MPI_Type_commit(&combined_type);
  free_types(parts);
  return combined_type;
}

CountAndType create_bytes_type(std::size_t bytes) {
  if (bytes <= INT_MAX) return {static_cast<int>(bytes), MPI_BYTE};
  CountAndType blocks{1, create_repeated_type(static_cast<Index>(bytes), 1, MPI_BYTE)};
  MPI_Type_commit(&blocks.type);
  return blocks;
}

void free_types(std::vector<MPI_Datatype>& types) {
  for (auto& type : types)
    if (type != MPI_BYTE) MPI_Type_free(&type);
  types.clear();
}

}  // namespace nearfield::halo

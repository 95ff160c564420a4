// Paper S3 (papers/S3/README.md), sections 3 and 5: messages with non-contiguous elements. They are strided vectors of
// doubles, or the faces of a 3-D array (x: contiguous rows; y: non-adjacent rows; z: non-adjacent elements, OCCOMM's
// double stride), sent as an MPI datatype, packed by hand, or contiguous for comparison, by standard, synchronous and
// buffered sends.
#pragma once

#include <algorithm>

#include "scenario/scenario.hpp"
#include "scenario/size_ladder.hpp"

namespace nearfield {

/// Returns message sizes in bytes, multiples of 8: the 256 KiB of paper S3, smaller sizes, and one that exceeds the
/// private caches.
inline std::vector<std::int64_t> stride_sizes(const SizeChoice& choice) {
  std::vector<std::int64_t> sizes{512, 2048, 16 << 10, 256 << 10, 2 << 20};
  if (choice.tier == "quick") sizes = {2048, 256 << 10};
  if (!choice.sizes.empty()) sizes = choice.sizes;
  for (auto& size : sizes) size = std::max<std::int64_t>(size / 8 * 8, 8);
  return sizes;
}

/// Returns the distances between elements, in doubles.
inline std::vector<std::int64_t> strides_in_doubles(const std::string& tier) {
  if (tier == "quick") return {1, 2, 3, 4, 7, 8, 15, 16, 32, 33, 64};
  return {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64};
}

inline const ScenarioInfo stride_info{
    "stride",
    "Messages whose elements lie apart: strided vectors and the faces of a 3-D array",
    Ranks::pair,
    {{"size_bytes", "payload"},
     {"stride", "doubles from one element to the next"},
     {"face", "of a 3-D array in C order with ghost layers: x (rows), y (rows apart), z (elements apart)"},
     {"method", "datatype (MPI_Type_vector), manual-pack, or contiguous"},
     {"mode", "standard, synchronous or buffered send"}},
    {{"half_round_trip", "ns", Combine::root, "packing included"}},
};

}  // namespace nearfield

// Boxes of cells in three dimensions, the slowest-varying first. A grid of fewer dimensions has leading dimensions of
// extent 1.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace nearfield::halo {

using Index = std::int64_t;
using Triple = std::array<Index, 3>;
using Ranks = std::array<int, 3>;                  ///< ranks per dimension, or coordinates in the grid of ranks
using Widths = std::array<std::array<int, 2>, 3>;  ///< numbers of cells at the low and the high side of each dimension
using SideFlags = std::array<std::array<bool, 2>, 3>;

/// The cells from `lo` up to but not including `hi`.
struct Box {
  Triple lo{}, hi{};

  Triple extents() const { return {hi[0] - lo[0], hi[1] - lo[1], hi[2] - lo[2]}; }
  bool empty() const { return hi[0] <= lo[0] || hi[1] <= lo[1] || hi[2] <= lo[2]; }
  Index num_cells() const { return empty() ? 0 : (hi[0] - lo[0]) * (hi[1] - lo[1]) * (hi[2] - lo[2]); }
  Box shifted_by(const Triple& offset) const {
    return {{lo[0] + offset[0], lo[1] + offset[1], lo[2] + offset[2]},
            {hi[0] + offset[0], hi[1] + offset[1], hi[2] + offset[2]}};
  }
  Box widened_by(const Widths& widths) const {
    return {{lo[0] - widths[0][0], lo[1] - widths[1][0], lo[2] - widths[2][0]},
            {hi[0] + widths[0][1], hi[1] + widths[1][1], hi[2] + widths[2][1]}};
  }
  friend bool operator==(const Box&, const Box&) = default;
};

/// Returns the bounding box of both boxes; an empty box does not contribute.
inline Box bounding_box(const Box& a, const Box& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  Box box;
  for (int d = 0; d < 3; ++d) {
    box.lo[d] = std::min(a.lo[d], b.lo[d]);
    box.hi[d] = std::max(a.hi[d], b.hi[d]);
  }
  return box;
}

/// Calls visit(coordinates) for every place of a grid that has `counts` places per dimension. The last coordinate
/// varies fastest.
template <class Visit>
void for_each_place(const Ranks& counts, Visit&& visit) {
  for (int i = 0; i < counts[0]; ++i)
    for (int j = 0; j < counts[1]; ++j)
      for (int k = 0; k < counts[2]; ++k) visit(Ranks{i, j, k});
}

}  // namespace nearfield::halo

// The geometry of a grid: which rank owns and reads which cells. Independent of nodes, memory and MPI.
#pragma once

#include <vector>

#include "halo/box.hpp"

namespace nearfield::halo {

/// Ghost cells of a rank with a common owner. In the reader's coordinates, which continue beyond the grid's edge: the
/// owner has the same cells at `ghost.shifted(-shift)`.
struct Piece {
  Box ghost;
  Ranks owner{};
  Triple shift{};
  Box source() const { return ghost.shifted({-shift[0], -shift[1], -shift[2]}); }
};

/// Cells are split as evenly as possible, in each dimension alike for all ranks. Parts may be smaller than the halo, or
/// empty: a halo then extends over several ranks. A halo wider than a periodic grid wraps around more than once.
struct Layout {
  Triple extents{1, 1, 1};
  Ranks dims{1, 1, 1};
  Widths halo{};
  Sides periodic{};
  bool corners = true;  ///< whether ghost cells beyond two or three sides are filled

  Index cut(int dimension, int place) const { return extents[dimension] * place / dims[dimension]; }
  int owner(int dimension, Index cell) const;
  Box own(const Ranks& place) const;

  /// Returns the ghost cells, for a halo of these widths, of the rank at `place` that have an owner.
  std::vector<Piece> ghosts(const Ranks& place, const Widths& widths) const;

  /// Returns all displacements between owners and readers, from 0 up to dims: the same on every rank.
  std::vector<Ranks> displacements(const Widths& widths) const;

  /// Returns the place at this displacement from another, with wrap-around.
  Ranks displaced(const Ranks& place, const Ranks& by, int sign) const;

  int number(const Ranks& place) const { return (place[0] * dims[1] + place[1]) * dims[2] + place[2]; }
};

}  // namespace nearfield::halo

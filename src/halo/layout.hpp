// The geometry of a decomposed grid: which rank owns and which rank reads a cell. Independent of nodes, memory and MPI.
#pragma once

#include <vector>

#include "halo/box.hpp"

namespace nearfield::halo {

/// A box of ghost cells of one rank (the reader) that have the same owner. `ghost` is in the coordinates of the reader,
/// which continue beyond a periodic edge of the grid; the owner's coordinates are smaller by `shift`.
struct GhostPiece {
  Box ghost;
  Ranks owner_coordinates{};
  Triple shift{};
  Box in_owner_coordinates() const { return ghost.shifted_by({-shift[0], -shift[1], -shift[2]}); }
};

/// The decomposition of a grid. In each dimension the cells are split as evenly as possible among `dims` ranks. A rank
/// may have fewer cells than the halo is wide, or none; then the halo of its neighbour extends over several ranks. A
/// halo wider than a periodic grid wraps around more than once.
struct Layout {
  Triple extents{1, 1, 1};
  Ranks dims{1, 1, 1};
  Widths halo{};
  SideFlags periodic{};
  bool corners = true;  ///< also fill ghost cells that are beyond the edge in two or three dimensions

  Index first_cell_of(int dimension, int place) const { return extents[dimension] * place / dims[dimension]; }
  int owner_of(int dimension, Index cell) const;
  Box cells_of(const Ranks& place) const;

  /// Returns those ghost cells of the rank at `place`, for a halo of these widths, that have an owner. Ghost cells
  /// beyond an edge that is not periodic have none.
  std::vector<GhostPiece> ghost_pieces(const Ranks& place, const Widths& widths) const;

  /// Returns all displacements from a reader of ghost cells to their owner, modulo dims; the same list on every rank.
  std::vector<Ranks> displacements(const Widths& widths) const;

  /// Returns the place at displacement `sign * displacement` from `place`, with wrap-around.
  Ranks place_at_displacement(const Ranks& place, const Ranks& displacement, int sign) const;

  int place_number(const Ranks& place) const { return (place[0] * dims[1] + place[1]) * dims[2] + place[2]; }
};

}  // namespace nearfield::halo

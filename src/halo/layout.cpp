#include "halo/layout.hpp"

#include <set>

namespace nearfield::halo {
namespace {

// Adjacent cells in one dimension that have the same owner.
struct CellRange {
  Index lo, hi, shift;
  int owner_coordinate;
  bool is_own;
};

Index floor_divided(Index a, Index b) { return a / b - (a % b < 0); }

// Returns the cells that a rank reads in dimension `d`: its own, and the adjacent ghost cells that have an owner.
std::vector<CellRange> runs_in_dimension(const Layout& layout, int d, int place, const std::array<int, 2>& widths) {
  const Index lo = layout.first_cell_of(d, place), hi = layout.first_cell_of(d, place + 1), cells = layout.extents[d];
  std::vector<CellRange> runs;
  const auto add_ghosts = [&](Index from, Index to) {
    while (from < to) {
      const Index shift = floor_divided(from, cells) * cells;
      const int owner = layout.owner_of(d, from - shift);
      const Index end = std::min(to, layout.first_cell_of(d, owner + 1) + shift);
      runs.push_back({from, end, shift, owner, false});
      from = end;
    }
  };
  add_ghosts(layout.periodic[d][0] ? lo - widths[0] : std::max<Index>(0, lo - widths[0]), lo);
  runs.push_back({lo, hi, 0, place, true});
  add_ghosts(hi, layout.periodic[d][1] ? hi + widths[1] : std::min(cells, hi + widths[1]));
  return runs;
}

}  // namespace

int Layout::owner_of(int dimension, Index cell) const {
  auto place = static_cast<int>(cell * dims[dimension] / extents[dimension]);
  while (first_cell_of(dimension, place + 1) <= cell) ++place;
  while (first_cell_of(dimension, place) > cell) --place;
  return place;
}

Box Layout::cells_of(const Ranks& place) const {
  Box box;
  for (int d = 0; d < 3; ++d) {
    box.lo[d] = first_cell_of(d, place[d]);
    box.hi[d] = first_cell_of(d, place[d] + 1);
  }
  return box;
}

std::vector<GhostPiece> Layout::ghost_pieces(const Ranks& place, const Widths& widths) const {
  if (cells_of(place).empty()) return {};
  std::vector<GhostPiece> pieces;
  const auto is = runs_in_dimension(*this, 0, place[0], widths[0]);
  const auto js = runs_in_dimension(*this, 1, place[1], widths[1]);
  const auto ks = runs_in_dimension(*this, 2, place[2], widths[2]);
  for (const auto& i : is)
    for (const auto& j : js)
      for (const auto& k : ks) {
        const int num_ghost_dimensions = !i.is_own + !j.is_own + !k.is_own;
        if (num_ghost_dimensions == 0 || (num_ghost_dimensions > 1 && !corners)) continue;
        pieces.push_back({{{i.lo, j.lo, k.lo}, {i.hi, j.hi, k.hi}},
                          {i.owner_coordinate, j.owner_coordinate, k.owner_coordinate},
                          {i.shift, j.shift, k.shift}});
      }
  return pieces;
}

std::vector<Ranks> Layout::displacements(const Widths& widths) const {
  std::array<std::set<int>, 3> steps_by_dimension;
  for (int d = 0; d < 3; ++d) {
    steps_by_dimension[d].insert(0);
    for (int place = 0; place < dims[d]; ++place)
      for (const auto& run : runs_in_dimension(*this, d, place, widths[d]))
        steps_by_dimension[d].insert((run.owner_coordinate - place + dims[d]) % dims[d]);
  }
  std::vector<Ranks> list;
  for (const int i : steps_by_dimension[0])
    for (const int j : steps_by_dimension[1])
      for (const int k : steps_by_dimension[2]) list.push_back({i, j, k});
  return list;
}

Ranks Layout::place_at_displacement(const Ranks& place, const Ranks& displacement, int sign) const {
  Ranks result;
  for (int d = 0; d < 3; ++d) result[d] = ((place[d] + sign * displacement[d]) % dims[d] + dims[d]) % dims[d];
  return result;
}

}  // namespace nearfield::halo

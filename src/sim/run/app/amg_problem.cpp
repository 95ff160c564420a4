// The problem of the AMG benchmark's input file sstruct.in.MG.FD: a Laplace-type problem on eight parts of 48 cells
// that do not form a box, with jumps of the coefficients between the parts and a strong anisotropy in the last part.
// Each part is cut into boxes, one per rank (-pooldist 1); with the refinement 1 (-r), a box has as many cells in every
// direction as a part in the file. If the file's coefficients across parts differ by direction, the smaller coefficient
// of both parts is taken, so that the matrix is symmetric. The last part is joined exactly to the preceding part; the
// connection in the file is off by two rows.
#include "sim/run/app/amg_problem.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>

namespace nearfield::sim::multigrid {
namespace {

constexpr int height = 4;  // cells of every part in z

struct DomainPart {
  int width, depth;                        // cells in x and y
  double coupling;                         // magnitude of the coefficients that couple cells of different parts
  double x, y, z, diagonal, antidiagonal;  // coefficients to (1 0 0), (0 1 0), (0 0 1), (1 1 0), (1 -1 0), and opposite
};
constexpr std::array<DomainPart, 8> parts{{{4, 3, 1, 0, 1, 1, 0, 1},
                                           {4, 3, 100, 0, 100, 100, 100, 0},
                                           {4, 3, 0.1, 0, 0.1, 0.1, 0, 0.1},
                                           {4, 3, 1, 0, 1, 1, 1, 0},
                                           {2, 6, 1, 1, 1, 1, 0, 0},
                                           {6, 2, 1, 1, 1, 1, 0, 0},
                                           {6, 2, 1, 1, 1, 1, 0, 0},
                                           {4, 3, 1, 0.1, 10, 0.1, 0, 0}}};

// The joint of two parts: a cell with the coordinates c in `part` has the coordinates c + (x, y) in `other`.
struct PartJoint {
  int part, other, x, y;
};
constexpr std::array<PartJoint, 7> joints{
    {{0, 1, -4, 0}, {1, 2, -4, 0}, {2, 3, -4, 0}, {3, 4, -4, 0}, {4, 5, -2, -4}, {4, 6, -2, 0}, {6, 7, 2, -2}}};

struct Cell {
  int part, x, y, z;
};

// Returns the numbers of ranks of a part in three directions, in descending order.
std::array<int, 3> rank_grid_of_part(int ranks) {
  std::array<int, 3> best{ranks, 1, 1};
  for (int z = 1; z * z * z <= ranks; ++z)
    for (int y = z; ranks % z == 0 && y * y <= ranks / z; ++y)
      if (ranks / z % y == 0 && ranks / z / y - z < best[0] - best[2]) best = {ranks / z / y, y, z};
  return best;
}

class AmgDomain {
 public:
  AmgDomain(int ranks, int refinement) : refinement_(refinement), grid_(rank_grid_of_part(ranks / 8)) {}

  int cells_per_rank() const { return 48 * refinement_ * refinement_ * refinement_; }
  bool contains_cell(const Cell& c) const {
    const DomainPart& part = parts[c.part];
    return 0 <= c.x && c.x < part.width * axis_scale(0) && 0 <= c.y && c.y < part.depth * axis_scale(1) && 0 <= c.z &&
           c.z < height * axis_scale(2);
  }
  // Returns the cell of another part that coincides with `c`, a cell outside its own part. Returns part -1 if there is
  // no such cell.
  Cell matching_cell(const Cell& c) const {
    for (const PartJoint& joint : joints) {
      const int x = joint.x * axis_scale(0), y = joint.y * axis_scale(1);
      if (const Cell matching{joint.other, c.x + x, c.y + y, c.z}; joint.part == c.part && contains_cell(matching))
        return matching;
      if (const Cell matching{joint.part, c.x - x, c.y - y, c.z}; joint.other == c.part && contains_cell(matching))
        return matching;
    }
    return {-1, 0, 0, 0};
  }
  // Returns the number of a cell's unknown. A rank's unknowns are contiguous, x fastest.
  int unknown_number(const Cell& c) const {
    const int width = parts[c.part].width * refinement_, depth = parts[c.part].depth * refinement_;
    const int rank =
        ((c.part * grid_[2] + c.z / (height * refinement_)) * grid_[1] + c.y / depth) * grid_[0] + c.x / width;
    const int local_number = (c.z % (height * refinement_) * depth + c.y % depth) * width + c.x % width;
    return rank * cells_per_rank() + local_number;
  }
  // Returns the cells in the order of their numbers.
  std::vector<Cell> cells_by_number() const {
    std::vector<Cell> all(static_cast<std::size_t>(8 * grid_[0] * grid_[1] * grid_[2] * cells_per_rank()));
    for (int part = 0; part < 8; ++part)
      for (int z = 0; z < height * axis_scale(2); ++z)
        for (int y = 0; y < parts[part].depth * axis_scale(1); ++y)
          for (int x = 0; x < parts[part].width * axis_scale(0); ++x)
            all[unknown_number({part, x, y, z})] = {part, x, y, z};
    return all;
  }

 private:
  int axis_scale(int axis) const { return grid_[axis] * refinement_; }
  int refinement_;
  std::array<int, 3> grid_;
};

struct StencilNeighbor {
  int x, y, z;
  double coefficient;
  bool is_stored;
};

std::vector<StencilNeighbor> stencil_neighbors(const DomainPart& part) {
  std::vector<StencilNeighbor> list;
  for (const int direction : {-1, 1}) {
    list.push_back({direction, 0, 0, part.x, true});
    list.push_back({0, direction, 0, part.y, true});
    list.push_back({0, 0, direction, part.z, true});
    list.push_back({direction, direction, 0, part.diagonal, part.diagonal > 0});
    list.push_back({direction, -direction, 0, part.antidiagonal, part.antidiagonal > 0});
  }
  return list;
}

// Adds the matrix row of a cell. The domain has a Dirichlet boundary. Cells of different parts are coupled along the
// axes only.
void add_row(const AmgDomain& domain, const Cell& c, Matrix& matrix) {
  double diagonal = 0;
  for (const StencilNeighbor& n : stencil_neighbors(parts[c.part])) {
    const Cell neighbor{c.part, c.x + n.x, c.y + n.y, c.z + n.z};
    double coefficient = n.coefficient;
    if (domain.contains_cell(neighbor)) {
      if (n.is_stored) matrix.add_entry(domain.unknown_number(neighbor), -coefficient);
    } else if (const Cell matching = domain.matching_cell(neighbor); matching.part >= 0) {
      const bool is_along_axis = std::abs(n.x) + std::abs(n.y) + std::abs(n.z) == 1;
      coefficient = is_along_axis ? std::min(parts[c.part].coupling, parts[matching.part].coupling) : 0;
      if (is_along_axis) matrix.add_entry(domain.unknown_number(matching), -coefficient);
    }
    diagonal += coefficient;
  }
  matrix.add_entry(domain.unknown_number(c), diagonal);
  matrix.end_row();
}

}  // namespace

AmgProblem make_amg_problem(int ranks, int refinement) {
  if (ranks < 8 || ranks % 8 != 0)
    throw std::invalid_argument("amg: " + std::to_string(ranks) +
                                " ranks; its domain has 8 parts, so multiples of 8 would work");
  const AmgDomain domain(ranks, refinement);
  AmgProblem problem;
  problem.matrix.columns = ranks * domain.cells_per_rank();
  for (const Cell& cell : domain.cells_by_number()) add_row(domain, cell, problem.matrix);
  for (int r = 0; r <= ranks; ++r) problem.first_row_by_rank.push_back(r * domain.cells_per_rank());
  return problem;
}

}  // namespace nearfield::sim::multigrid

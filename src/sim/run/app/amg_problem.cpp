// The problem of the benchmark's input file sstruct.in.MG.FD: a Laplace-type problem on eight parts of 48 cells that do
// not form a box, with jumps between the parts and a strong anisotropy in the last one. Each part is cut into boxes,
// one per rank (-pooldist 1), and a box has as many cells in every direction as the part has without ranks and
// refinement (-r). If the file's coefficients across parts differ by direction, the smaller one of both parts is taken,
// so that the matrix is symmetric. The last part is joined to the one before, whose extents the file's connection
// misses by two rows.
#include "sim/run/app/amg_problem.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>

namespace nearfield::sim::multigrid {
namespace {

constexpr int height = 4;  // of every part, in z

struct Part {
  int wide, deep;                          // x and y
  double size;                             // of the coefficients across parts
  double x, y, z, diagonal, antidiagonal;  // to (1 0 0), (0 1 0), (0 0 1), (1 1 0), (1 -1 0) and their opposites
};
constexpr std::array<Part, 8> parts{{{4, 3, 1, 0, 1, 1, 0, 1},
                                     {4, 3, 100, 0, 100, 100, 100, 0},
                                     {4, 3, 0.1, 0, 0.1, 0.1, 0, 0.1},
                                     {4, 3, 1, 0, 1, 1, 1, 0},
                                     {2, 6, 1, 1, 1, 1, 0, 0},
                                     {6, 2, 1, 1, 1, 1, 0, 0},
                                     {6, 2, 1, 1, 1, 1, 0, 0},
                                     {4, 3, 1, 0.1, 10, 0.1, 0, 0}}};

// Identifies cells of two parts: adding (x, y) to the coordinates in `part` gives those in `other`.
struct Joint {
  int part, other, x, y;
};
constexpr std::array<Joint, 7> joints{
    {{0, 1, -4, 0}, {1, 2, -4, 0}, {2, 3, -4, 0}, {3, 4, -4, 0}, {4, 5, -2, -4}, {4, 6, -2, 0}, {6, 7, 2, -2}}};

struct Cell {
  int part, x, y, z;
};

// Returns the numbers of ranks of a part in three directions, in descending order.
std::array<int, 3> grid_of(int ranks) {
  std::array<int, 3> best{ranks, 1, 1};
  for (int z = 1; z * z * z <= ranks; ++z)
    for (int y = z; ranks % z == 0 && y * y <= ranks / z; ++y)
      if (ranks / z % y == 0 && ranks / z / y - z < best[0] - best[2]) best = {ranks / z / y, y, z};
  return best;
}

class Domain {
 public:
  Domain(int ranks, int refinement) : refinement_(refinement), grid_(grid_of(ranks / 8)) {}

  int cells_of_rank() const { return 48 * refinement_ * refinement_ * refinement_; }
  bool holds(const Cell& c) const {
    const Part& part = parts[c.part];
    return 0 <= c.x && c.x < part.wide * scale(0) && 0 <= c.y && c.y < part.deep * scale(1) && 0 <= c.z &&
           c.z < height * scale(2);
  }
  // Returns the cell of another part that coincides with `c`, which lies outside its part; part -1 if there is none.
  Cell beyond(const Cell& c) const {
    for (const Joint& joint : joints) {
      const int x = joint.x * scale(0), y = joint.y * scale(1);
      if (const Cell matching{joint.other, c.x + x, c.y + y, c.z}; joint.part == c.part && holds(matching))
        return matching;
      if (const Cell matching{joint.part, c.x - x, c.y - y, c.z}; joint.other == c.part && holds(matching))
        return matching;
    }
    return {-1, 0, 0, 0};
  }
  // Returns the number of a cell's unknown. A rank's unknowns are contiguous, x fastest.
  int number(const Cell& c) const {
    const int wide = parts[c.part].wide * refinement_, deep = parts[c.part].deep * refinement_;
    const int rank =
        ((c.part * grid_[2] + c.z / (height * refinement_)) * grid_[1] + c.y / deep) * grid_[0] + c.x / wide;
    const int inside = (c.z % (height * refinement_) * deep + c.y % deep) * wide + c.x % wide;
    return rank * cells_of_rank() + inside;
  }
  // Returns the cells in the order of their numbers.
  std::vector<Cell> cells() const {
    std::vector<Cell> all(static_cast<std::size_t>(8 * grid_[0] * grid_[1] * grid_[2] * cells_of_rank()));
    for (int part = 0; part < 8; ++part)
      for (int z = 0; z < height * scale(2); ++z)
        for (int y = 0; y < parts[part].deep * scale(1); ++y)
          for (int x = 0; x < parts[part].wide * scale(0); ++x) all[number({part, x, y, z})] = {part, x, y, z};
    return all;
  }

 private:
  int scale(int axis) const { return grid_[axis] * refinement_; }
  int refinement_;
  std::array<int, 3> grid_;
};

struct Neighbour {
  int x, y, z;
  double coefficient;
  bool stored;
};

std::vector<Neighbour> neighbours(const Part& part) {
  std::vector<Neighbour> list;
  for (const int direction : {-1, 1}) {
    list.push_back({direction, 0, 0, part.x, true});
    list.push_back({0, direction, 0, part.y, true});
    list.push_back({0, 0, direction, part.z, true});
    list.push_back({direction, direction, 0, part.diagonal, part.diagonal > 0});
    list.push_back({direction, -direction, 0, part.antidiagonal, part.antidiagonal > 0});
  }
  return list;
}

// The domain has a Dirichlet boundary. Across parts only neighbours along an axis are coupled.
void add_row(const Domain& domain, const Cell& c, Matrix& matrix) {
  double diagonal = 0;
  for (const Neighbour& n : neighbours(parts[c.part])) {
    const Cell neighbour{c.part, c.x + n.x, c.y + n.y, c.z + n.z};
    double coefficient = n.coefficient;
    if (domain.holds(neighbour)) {
      if (n.stored) matrix.add(domain.number(neighbour), -coefficient);
    } else if (const Cell matching = domain.beyond(neighbour); matching.part >= 0) {
      const bool straight = std::abs(n.x) + std::abs(n.y) + std::abs(n.z) == 1;
      coefficient = straight ? std::min(parts[c.part].size, parts[matching.part].size) : 0;
      if (straight) matrix.add(domain.number(matching), -coefficient);
    }
    diagonal += coefficient;
  }
  matrix.add(domain.number(c), diagonal);
  matrix.end_row();
}

}  // namespace

Problem amg_problem(int ranks, int refinement) {
  if (ranks < 8 || ranks % 8 != 0)
    throw std::invalid_argument("amg: " + std::to_string(ranks) +
                                " ranks; its domain has 8 parts, so multiples of 8 would work");
  const Domain domain(ranks, refinement);
  Problem problem;
  problem.matrix.columns = ranks * domain.cells_of_rank();
  for (const Cell& cell : domain.cells()) add_row(domain, cell, problem.matrix);
  for (int r = 0; r <= ranks; ++r) problem.first.push_back(r * domain.cells_of_rank());
  return problem;
}

}  // namespace nearfield::sim::multigrid

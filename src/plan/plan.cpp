#include "plan/plan.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <tuple>

namespace nearfield::planning {
namespace {

using Extents = PerDimension<std::int64_t>;
using Counts = PerDimension<int>;

/// The location of a neighbour.
enum class Side { none, inside, across };

/// The differences between ranks along one dimension that affect costs.
struct Position {
  std::int64_t extent;
  Sides<Side> sides;
  bool operator==(const Position&) const = default;

  /// Returns whether no rank is slower than at `other`. (A smaller box may be: its stride may hit fewer banks.)
  bool covered_by(const Position& other) const {
    const auto side_covered = [&](int s) { return sides[s] == Side::none || sides[s] == other.sides[s]; };
    return extent == other.extent && side_covered(0) && side_covered(1);
  }
};

/// Returns the cells along one dimension of the box at this coordinate; the first boxes get the remainder.
std::int64_t extent_at(std::int64_t cells, int boxes, int coordinate) {
  return cells / boxes + (coordinate < cells % boxes ? 1 : 0);
}

Side side_of(int coordinate, int step, int boxes, int node_boxes, bool periodic) {
  int neighbour = coordinate + step;
  if (neighbour < 0 || neighbour >= boxes) {
    // A rank that is its own neighbour copies inside its own memory, without a message.
    if (!periodic || boxes == 1) return Side::none;
    neighbour = (neighbour + boxes) % boxes;
  }
  return coordinate / node_boxes == neighbour / node_boxes ? Side::inside : Side::across;
}

/// Returns the positions along one dimension that may be the slowest.
std::vector<Position> positions(const PlanRequest& request, int d, int boxes, int node_boxes) {
  const std::int64_t cells = request.extents[d];
  std::vector<Position> uncovered;
  for (int c = 0; c < boxes; ++c) {
    const int alike = c - node_boxes;  // as far inside its node's box as c
    if (alike > 0 && c < boxes - 1 && extent_at(cells, boxes, alike) == extent_at(cells, boxes, c)) continue;
    const auto side = [&](int s) { return side_of(c, 2 * s - 1, boxes, node_boxes, request.periodic[d][s]); };
    const Position here{extent_at(cells, boxes, c), {side(0), side(1)}};
    if (std::any_of(uncovered.begin(), uncovered.end(), [&](const Position& p) { return here.covered_by(p); }))
      continue;
    std::erase_if(uncovered, [&](const Position& p) { return p.covered_by(here); });
    uncovered.push_back(here);
  }
  return uncovered;
}

/// Returns a box of `region` cells inside an array of `array` cells as runs of bytes.
Message message_of(const Extents& region, const Extents& array, int element_bytes) {
  int d = max_dimensions - 1;
  std::int64_t run = region[d], step = array[d];
  while (d > 0 && region[d] == array[d]) {
    --d;
    run *= region[d];
    step *= array[d];
  }
  Message message{.run_bytes = run * element_bytes};
  message.runs = 1;
  for (--d; d >= 0; --d) {
    if (region[d] > 1 && message.stride_bytes == 0) message.stride_bytes = step * element_bytes;
    message.runs *= region[d];
    step *= array[d];
  }
  message.bytes = message.runs * message.run_bytes;
  return message;
}

/// One rank of a plan: its box and where its neighbours are.
class Rank {
 public:
  Rank(const PlanRequest& request, const PerDimension<Position>& at) : request_(request), at_(at) {
    for (int d = 0; d < max_dimensions; ++d) {
      box_[d] = at[d].extent;
      array_[d] = box_[d] + request.halo[d][0] + request.halo[d][1];
    }
  }

  /// Adds what this rank waits for in an exchange to an empty plan.
  void exchange(Plan& plan) const {
    plan.box = box_;
    for (int code = 0; code < 27; ++code) receive({code / 9 - 1, code / 3 % 3 - 1, code % 3 - 1}, plan);
    plan.time_ns = plan.parts.total_ns();
    const auto cells = static_cast<double>(box_[0] * box_[1] * box_[2]);
    plan.sweep_ns = cells * interpolate(request_.costs.sweep_ns_per_cell, box_[2]);
  }

 private:
  void receive(const Counts& direction, Plan& plan) const {
    const int axes = static_cast<int>(3 - std::count(direction.begin(), direction.end(), 0));
    if (axes == 0 || (axes > 1 && !request_.corners)) return;
    const Side side = side_towards(direction);
    if (side == Side::none) return;
    Extents region = box_;
    for (int d = 0; d < max_dimensions; ++d)
      if (direction[d] != 0) region[d] = request_.halo[d][direction[d] > 0];
    const Message message = message_of(region, array_, request_.element_bytes);
    if (message.bytes == 0) return;
    const Costs& costs = request_.costs;
    add(time_of(side == Side::across ? costs.network : costs.inside(), message), plan);
    plan.network_messages += side == Side::across;
    for (int d = 0; d < max_dimensions; ++d)
      if (axes == 1 && direction[d] != 0) add(message, plan.faces[d]);
  }

  static void add(const Time& time, Plan& plan) {
    plan.parts.latency_ns += time.latency_ns;
    plan.parts.bytes_ns += time.bytes_ns;
    plan.parts.strided_ns += time.strided_ns;
    ++plan.messages;
  }

  static void add(const Message& message, Face& face) {
    if (message.bytes > face.message.bytes) face.message = message;
    ++face.messages;
  }

  Side side_towards(const Counts& direction) const {
    Side side = Side::inside;
    for (int d = 0; d < max_dimensions; ++d) {
      if (direction[d] == 0) continue;
      const Side here = at_[d].sides[direction[d] > 0];
      if (here == Side::none) return here;
      if (here == Side::across) side = here;
    }
    return side;
  }

  const PlanRequest& request_;
  PerDimension<Position> at_;
  Extents box_{}, array_{};
};

Plan plan_of(const PlanRequest& request, const Counts& dims, const Counts& node_dims) {
  PerDimension<std::vector<Position>> along;
  for (int d = 0; d < max_dimensions; ++d) along[d] = positions(request, d, dims[d], node_dims[d]);
  Plan slowest;
  bool first = true;
  for (const Position& x : along[0])
    for (const Position& y : along[1])
      for (const Position& z : along[2]) {
        Plan plan{.dims = dims, .node_dims = node_dims};
        Rank(request, {x, y, z}).exchange(plan);
        if (first || plan.time_ns + plan.sweep_ns > slowest.time_ns + slowest.sweep_ns) slowest = plan;
        first = false;
      }
  return slowest;
}

/// Calls `use` with every factorisation of `product` into three factors.
template <typename Use>
void for_factors(int product, Use use) {
  for (int a = 1; a <= product; ++a) {
    if (product % a != 0) continue;
    for (int b = 1; b <= product / a; ++b)
      if (product / a % b == 0) use(Counts{a, b, product / a / b});
  }
}

bool fits(const PlanRequest& request, const Counts& dims) {
  for (int d = 0; d < max_dimensions; ++d) {
    if (request.fixed_dims[d] != 0 && dims[d] != request.fixed_dims[d]) return false;
    const auto read = std::max(request.halo[d][0], request.halo[d][1]);
    if (dims[d] > 1 && request.extents[d] / dims[d] < std::max(read, 1)) return false;
  }
  return true;
}

std::vector<Counts> node_boxes(const PlanRequest& request, const Counts& dims) {
  if (request.ranks_per_node >= request.ranks) return {dims};
  if (request.ranks % request.ranks_per_node != 0) return {{1, 1, 1}};
  std::vector<Counts> boxes;
  for_factors(request.ranks_per_node, [&](const Counts& box) {
    if (dims[0] % box[0] == 0 && dims[1] % box[1] == 0 && dims[2] % box[2] == 0) boxes.push_back(box);
  });
  return boxes;
}

void require(bool truth, const std::string& problem) {
  if (!truth) throw std::invalid_argument(problem);
}

void check(const PlanRequest& request) {
  require(request.dimensions >= 1 && request.dimensions <= max_dimensions, "a grid has 1, 2 or 3 dimensions");
  require(request.ranks >= 1 && request.ranks_per_node >= 1, "there must be at least one rank, and one per node");
  require(request.element_bytes >= 1, "an element must have at least one byte");
  double bytes = request.element_bytes;
  for (int d = 0; d < max_dimensions; ++d) {
    bytes *= static_cast<double>(request.extents[d] + request.halo[d][0] + request.halo[d][1]);
    require(request.extents[d] >= 1, "every extent of the grid must be at least 1");
    require(d >= max_dimensions - request.dimensions || request.extents[d] == 1,
            "an unused dimension must have extent 1");
    require(request.halo[d][0] >= 0 && request.halo[d][1] >= 0, "a halo cannot be negative");
    require(request.fixed_dims[d] >= 0, "ranks along a dimension cannot be negative");
  }
  require(bytes < 0x1p62, "the grid has more bytes than can be counted");
}

auto rank_of(const Plan& p) {
  // In whole picoseconds, so that sums of the same terms in another order compare equal.
  const auto total = std::llround((p.time_ns + p.sweep_ns) * 1e3);
  const Counts slower_first{-p.dims[0], -p.dims[1], -p.dims[2]};
  return std::tuple{total, p.box[0] * p.box[1] * p.box[2], p.network_messages, p.messages, slower_first, p.node_dims};
}

}  // namespace

std::vector<Plan> plans(const PlanRequest& request) {
  check(request);
  std::vector<Plan> found;
  for_factors(request.ranks, [&](const Counts& dims) {
    if (!fits(request, dims)) return;
    for (const Counts& box : node_boxes(request, dims)) found.push_back(plan_of(request, dims, box));
  });
  require(!found.empty(), "no split of " + std::to_string(request.ranks) + " ranks fits this grid");
  std::sort(found.begin(), found.end(), [](const Plan& a, const Plan& b) { return rank_of(a) < rank_of(b); });
  return found;
}

}  // namespace nearfield::planning

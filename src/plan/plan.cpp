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

/// Where the neighbour on one side of a box is: none, on the same node, or on another node.
enum class NeighbourLocation { none, inside, across };

/// The properties of a rank along one dimension that affect its costs.
struct RankPosition {
  std::int64_t extent;
  Sides<NeighbourLocation> sides;
  bool operator==(const RankPosition&) const = default;

  /// Returns whether a rank at this position is never slower than a rank at `other`. Requires equal extents, since a
  /// smaller box may be slower: its stride may hit fewer banks.
  bool is_covered_by(const RankPosition& other) const {
    const auto is_side_covered = [&](int s) {
      return sides[s] == NeighbourLocation::none || sides[s] == other.sides[s];
    };
    return extent == other.extent && is_side_covered(0) && is_side_covered(1);
  }
};

/// Returns the number of cells along one dimension of the box at this coordinate. The first boxes get the remainder of
/// the division.
std::int64_t box_extent_at(std::int64_t cells, int boxes, int coordinate) {
  return cells / boxes + (coordinate < cells % boxes ? 1 : 0);
}

NeighbourLocation neighbour_location(int coordinate, int step, int boxes, int node_boxes, bool periodic) {
  int neighbour = coordinate + step;
  if (neighbour < 0 || neighbour >= boxes) {
    // A rank that is its own neighbour copies inside its own memory, without a message.
    if (!periodic || boxes == 1) return NeighbourLocation::none;
    neighbour = (neighbour + boxes) % boxes;
  }
  return coordinate / node_boxes == neighbour / node_boxes ? NeighbourLocation::inside : NeighbourLocation::across;
}

/// Returns the positions along one dimension that may be the slowest.
std::vector<RankPosition> candidate_positions(const PlanRequest& request, int d, int boxes, int node_boxes) {
  const std::int64_t cells = request.extents[d];
  std::vector<RankPosition> uncovered;
  for (int c = 0; c < boxes; ++c) {
    const int alike = c - node_boxes;  // the coordinate with the same offset in the previous node's box
    if (alike > 0 && c < boxes - 1 && box_extent_at(cells, boxes, alike) == box_extent_at(cells, boxes, c)) continue;
    const auto side = [&](int s) {
      return neighbour_location(c, 2 * s - 1, boxes, node_boxes, request.periodic[d][s]);
    };
    const RankPosition here{box_extent_at(cells, boxes, c), {side(0), side(1)}};
    if (std::any_of(uncovered.begin(), uncovered.end(), [&](const RankPosition& p) { return here.is_covered_by(p); }))
      continue;
    std::erase_if(uncovered, [&](const RankPosition& p) { return p.is_covered_by(here); });
    uncovered.push_back(here);
  }
  return uncovered;
}

/// Returns the memory layout of a box of `region` cells inside an array of `array` cells.
MessageLayout message_layout(const Extents& region, const Extents& array, int element_bytes) {
  int d = max_dimensions - 1;
  std::int64_t run = region[d], step = array[d];
  while (d > 0 && region[d] == array[d]) {
    --d;
    run *= region[d];
    step *= array[d];
  }
  MessageLayout message{.run_bytes = run * element_bytes};
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
class PlannedRank {
 public:
  PlannedRank(const PlanRequest& request, const PerDimension<RankPosition>& at) : request_(request), at_(at) {
    for (int d = 0; d < max_dimensions; ++d) {
      box_[d] = at[d].extent;
      array_[d] = box_[d] + request.halo[d][0] + request.halo[d][1];
    }
  }

  /// Fills an empty plan with the messages that this rank receives in an exchange, and with the times of the exchange
  /// and of a sweep.
  void add_exchange(Plan& plan) const {
    plan.box = box_;
    for (int code = 0; code < 27; ++code) add_received_message({code / 9 - 1, code / 3 % 3 - 1, code % 3 - 1}, plan);
    plan.time_ns = plan.parts.total_ns();
    const auto cells = static_cast<double>(box_[0] * box_[1] * box_[2]);
    plan.sweep_ns = cells * interpolate(request_.costs.sweep_ns_per_cell, box_[2]);
  }

 private:
  void add_received_message(const Counts& direction, Plan& plan) const {
    const int axes = static_cast<int>(3 - std::count(direction.begin(), direction.end(), 0));
    if (axes == 0 || (axes > 1 && !request_.corners)) return;
    const NeighbourLocation side = neighbour_location_towards(direction);
    if (side == NeighbourLocation::none) return;
    Extents region = box_;
    for (int d = 0; d < max_dimensions; ++d)
      if (direction[d] != 0) region[d] = request_.halo[d][direction[d] > 0];
    const MessageLayout message = message_layout(region, array_, request_.element_bytes);
    if (message.bytes == 0) return;
    const Costs& costs = request_.costs;
    add_time(message_time(side == NeighbourLocation::across ? costs.network : costs.costs_inside_node(), message),
             plan);
    plan.network_messages += side == NeighbourLocation::across;
    for (int d = 0; d < max_dimensions; ++d)
      if (axes == 1 && direction[d] != 0) add_to_face(message, plan.faces[d]);
  }

  static void add_time(const MessageTime& time, Plan& plan) {
    plan.parts.latency_ns += time.latency_ns;
    plan.parts.bytes_ns += time.bytes_ns;
    plan.parts.strided_ns += time.strided_ns;
    ++plan.messages;
  }

  static void add_to_face(const MessageLayout& message, FaceMessages& face) {
    if (message.bytes > face.message.bytes) face.message = message;
    ++face.messages;
  }

  NeighbourLocation neighbour_location_towards(const Counts& direction) const {
    NeighbourLocation side = NeighbourLocation::inside;
    for (int d = 0; d < max_dimensions; ++d) {
      if (direction[d] == 0) continue;
      const NeighbourLocation here = at_[d].sides[direction[d] > 0];
      if (here == NeighbourLocation::none) return here;
      if (here == NeighbourLocation::across) side = here;
    }
    return side;
  }

  const PlanRequest& request_;
  PerDimension<RankPosition> at_;
  Extents box_{}, array_{};
};

Plan slowest_rank_plan(const PlanRequest& request, const Counts& dims, const Counts& node_dims) {
  PerDimension<std::vector<RankPosition>> along;
  for (int d = 0; d < max_dimensions; ++d) along[d] = candidate_positions(request, d, dims[d], node_dims[d]);
  Plan slowest;
  bool first = true;
  for (const RankPosition& x : along[0])
    for (const RankPosition& y : along[1])
      for (const RankPosition& z : along[2]) {
        Plan plan{.dims = dims, .node_dims = node_dims};
        PlannedRank(request, {x, y, z}).add_exchange(plan);
        if (first || plan.time_ns + plan.sweep_ns > slowest.time_ns + slowest.sweep_ns) slowest = plan;
        first = false;
      }
  return slowest;
}

/// Calls `use` with every factorisation of `product` into three factors.
template <typename Use>
void for_each_factorisation(int product, Use use) {
  for (int a = 1; a <= product; ++a) {
    if (product % a != 0) continue;
    for (int b = 1; b <= product / a; ++b)
      if (product / a % b == 0) use(Counts{a, b, product / a / b});
  }
}

bool can_split_grid(const PlanRequest& request, const Counts& dims) {
  for (int d = 0; d < max_dimensions; ++d) {
    if (request.fixed_dims[d] != 0 && dims[d] != request.fixed_dims[d]) return false;
    const auto read = std::max(request.halo[d][0], request.halo[d][1]);
    if (dims[d] > 1 && request.extents[d] / dims[d] < std::max(read, 1)) return false;
  }
  return true;
}

std::vector<Counts> node_decompositions(const PlanRequest& request, const Counts& dims) {
  if (request.ranks_per_node >= request.ranks) return {dims};
  if (request.ranks % request.ranks_per_node != 0) return {{1, 1, 1}};
  std::vector<Counts> boxes;
  for_each_factorisation(request.ranks_per_node, [&](const Counts& box) {
    if (dims[0] % box[0] == 0 && dims[1] % box[1] == 0 && dims[2] % box[2] == 0) boxes.push_back(box);
  });
  return boxes;
}

void require(bool truth, const std::string& problem) {
  if (!truth) throw std::invalid_argument(problem);
}

void check_request(const PlanRequest& request) {
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

auto sort_key_of(const Plan& p) {
  // In whole picoseconds, so that sums of the same terms in another order compare equal.
  const auto total = std::llround((p.time_ns + p.sweep_ns) * 1e3);
  const Counts slower_first{-p.dims[0], -p.dims[1], -p.dims[2]};
  return std::tuple{total, p.box[0] * p.box[1] * p.box[2], p.network_messages, p.messages, slower_first, p.node_dims};
}

}  // namespace

std::vector<Plan> make_plans(const PlanRequest& request) {
  check_request(request);
  std::vector<Plan> found;
  for_each_factorisation(request.ranks, [&](const Counts& dims) {
    if (!can_split_grid(request, dims)) return;
    for (const Counts& box : node_decompositions(request, dims)) found.push_back(slowest_rank_plan(request, dims, box));
  });
  require(!found.empty(), "no split of " + std::to_string(request.ranks) + " ranks fits this grid");
  std::sort(found.begin(), found.end(), [](const Plan& a, const Plan& b) { return sort_key_of(a) < sort_key_of(b); });
  return found;
}

}  // namespace nearfield::planning

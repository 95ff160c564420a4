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

/// The location of the neighbour on one side of a box: there is none, it is on the same node, or on another node.
enum class NeighborLocation { none, inside, across };

/// The properties of a rank along one dimension that affect its costs.
struct RankPosition {
  std::int64_t extent;
  Sides<NeighborLocation> sides;
  bool operator==(const RankPosition&) const = default;

  /// Returns true if a rank at this position cannot be slower than a rank at `other`. Positions with different extents
  /// are not comparable, since a smaller box may be slower: its stride may use fewer memory banks.
  bool is_never_slower_than(const RankPosition& other) const {
    const auto is_side_never_slower = [&](int s) {
      return sides[s] == NeighborLocation::none || sides[s] == other.sides[s];
    };
    return extent == other.extent && is_side_never_slower(0) && is_side_never_slower(1);
  }
};

/// Returns the extent, in cells, of the box at this coordinate along one dimension of `cells` cells. The first boxes
/// get one cell more if the division has a remainder.
std::int64_t box_extent_at(std::int64_t cells, int num_boxes, int coordinate) {
  return cells / num_boxes + (coordinate < cells % num_boxes ? 1 : 0);
}

NeighborLocation neighbor_location(int coordinate, int step, int num_boxes, int boxes_per_node, bool periodic) {
  int neighbor = coordinate + step;
  if (neighbor < 0 || neighbor >= num_boxes) {
    // A rank that is its own neighbour copies inside its own memory, without a message.
    if (!periodic || num_boxes == 1) return NeighborLocation::none;
    neighbor = (neighbor + num_boxes) % num_boxes;
  }
  return coordinate / boxes_per_node == neighbor / boxes_per_node ? NeighborLocation::inside : NeighborLocation::across;
}

/// Returns the positions along one dimension at which the slowest rank may be.
std::vector<RankPosition> candidate_positions(const PlanRequest& request, int d, int num_boxes, int boxes_per_node) {
  const std::int64_t cells = request.extents[d];
  std::vector<RankPosition> candidates;
  for (int c = 0; c < num_boxes; ++c) {
    const int equivalent_coordinate =
        c - boxes_per_node;  // the coordinate with the same offset in the previous node's box
    if (equivalent_coordinate > 0 && c < num_boxes - 1 &&
        box_extent_at(cells, num_boxes, equivalent_coordinate) == box_extent_at(cells, num_boxes, c))
      continue;
    const auto side = [&](int s) {
      return neighbor_location(c, 2 * s - 1, num_boxes, boxes_per_node, request.periodic[d][s]);
    };
    const RankPosition here{box_extent_at(cells, num_boxes, c), {side(0), side(1)}};
    if (std::any_of(candidates.begin(), candidates.end(),
                    [&](const RankPosition& p) { return here.is_never_slower_than(p); }))
      continue;
    std::erase_if(candidates, [&](const RankPosition& p) { return p.is_never_slower_than(here); });
    candidates.push_back(here);
  }
  return candidates;
}

/// Returns the memory layout of a box of `message_cells` cells inside an array of `array` cells.
MessageLayout message_layout(const Extents& message_cells, const Extents& array, int element_bytes) {
  int d = max_dimensions - 1;
  std::int64_t run = message_cells[d], step = array[d];
  while (d > 0 && message_cells[d] == array[d]) {
    --d;
    run *= message_cells[d];
    step *= array[d];
  }
  MessageLayout message{.run_bytes = run * element_bytes};
  message.runs = 1;
  for (--d; d >= 0; --d) {
    if (message_cells[d] > 1 && message.stride_bytes == 0) message.stride_bytes = step * element_bytes;
    message.runs *= message_cells[d];
    step *= array[d];
  }
  message.bytes = message.runs * message.run_bytes;
  return message;
}

/// One rank of a plan: its box and the locations of its neighbours.
class PlannedRank {
 public:
  PlannedRank(const PlanRequest& request, const PerDimension<RankPosition>& at) : request_(request), positions_(at) {
    for (int d = 0; d < max_dimensions; ++d) {
      box_extents_[d] = at[d].extent;
      array_extents_[d] = box_extents_[d] + request.halo[d][0] + request.halo[d][1];
    }
  }

  /// Fills an empty plan with the messages that this rank receives in an exchange, and with the times of the exchange
  /// and of a sweep.
  void fill_plan(Plan& plan) const {
    plan.box = box_extents_;
    for (int direction_code = 0; direction_code < 27; ++direction_code)
      add_received_message({direction_code / 9 - 1, direction_code / 3 % 3 - 1, direction_code % 3 - 1}, plan);
    plan.time_ns = plan.time_parts.total_ns();
    const auto cells = static_cast<double>(box_extents_[0] * box_extents_[1] * box_extents_[2]);
    plan.sweep_ns = cells * interpolate(request_.costs.sweep_ns_per_cell, box_extents_[2]);
  }

 private:
  void add_received_message(const Counts& direction, Plan& plan) const {
    const int num_axes = static_cast<int>(3 - std::count(direction.begin(), direction.end(), 0));
    if (num_axes == 0 || (num_axes > 1 && !request_.corners)) return;
    const NeighborLocation side = neighbor_location_towards(direction);
    if (side == NeighborLocation::none) return;
    Extents message_cells = box_extents_;
    for (int d = 0; d < max_dimensions; ++d)
      if (direction[d] != 0) message_cells[d] = request_.halo[d][direction[d] > 0];
    const MessageLayout message = message_layout(message_cells, array_extents_, request_.element_bytes);
    if (message.bytes == 0) return;
    const Costs& costs = request_.costs;
    add_time(
        predict_message_time(side == NeighborLocation::across ? costs.network : costs.costs_inside_node(), message),
        plan);
    plan.num_network_messages += side == NeighborLocation::across;
    for (int d = 0; d < max_dimensions; ++d)
      if (num_axes == 1 && direction[d] != 0) add_to_face(message, plan.faces[d]);
  }

  static void add_time(const MessageTime& time, Plan& plan) {
    plan.time_parts.latency_ns += time.latency_ns;
    plan.time_parts.bytes_ns += time.bytes_ns;
    plan.time_parts.strided_ns += time.strided_ns;
    ++plan.num_messages;
  }

  static void add_to_face(const MessageLayout& message, FaceMessages& face) {
    if (message.bytes > face.message.bytes) face.message = message;
    ++face.num_messages;
  }

  NeighborLocation neighbor_location_towards(const Counts& direction) const {
    NeighborLocation side = NeighborLocation::inside;
    for (int d = 0; d < max_dimensions; ++d) {
      if (direction[d] == 0) continue;
      const NeighborLocation here = positions_[d].sides[direction[d] > 0];
      if (here == NeighborLocation::none) return here;
      if (here == NeighborLocation::across) side = here;
    }
    return side;
  }

  const PlanRequest& request_;
  PerDimension<RankPosition> positions_;
  Extents box_extents_{}, array_extents_{};
};

Plan make_plan_of_slowest_rank(const PlanRequest& request, const Counts& dims, const Counts& node_dims) {
  PerDimension<std::vector<RankPosition>> candidates_by_dimension;
  for (int d = 0; d < max_dimensions; ++d)
    candidates_by_dimension[d] = candidate_positions(request, d, dims[d], node_dims[d]);
  Plan slowest;
  bool first = true;
  for (const RankPosition& x : candidates_by_dimension[0])
    for (const RankPosition& y : candidates_by_dimension[1])
      for (const RankPosition& z : candidates_by_dimension[2]) {
        Plan plan{.dims = dims, .node_dims = node_dims};
        PlannedRank(request, {x, y, z}).fill_plan(plan);
        if (first || plan.time_ns + plan.sweep_ns > slowest.time_ns + slowest.sweep_ns) slowest = plan;
        first = false;
      }
  return slowest;
}

/// Calls `visit` with every factorisation of `product` into three factors.
template <typename Visit>
void for_each_factorization(int product, Visit visit) {
  for (int a = 1; a <= product; ++a) {
    if (product % a != 0) continue;
    for (int b = 1; b <= product / a; ++b)
      if (product / a % b == 0) visit(Counts{a, b, product / a / b});
  }
}

bool can_split_grid(const PlanRequest& request, const Counts& dims) {
  for (int d = 0; d < max_dimensions; ++d) {
    if (request.fixed_dims[d] != 0 && dims[d] != request.fixed_dims[d]) return false;
    const auto max_halo_width = std::max(request.halo[d][0], request.halo[d][1]);
    if (dims[d] > 1 && request.extents[d] / dims[d] < std::max(max_halo_width, 1)) return false;
  }
  return true;
}

std::vector<Counts> list_node_boxes(const PlanRequest& request, const Counts& dims) {
  if (request.ranks_per_node >= request.ranks) return {dims};
  if (request.ranks % request.ranks_per_node != 0) return {{1, 1, 1}};
  std::vector<Counts> num_boxes;
  for_each_factorization(request.ranks_per_node, [&](const Counts& box) {
    if (dims[0] % box[0] == 0 && dims[1] % box[1] == 0 && dims[2] % box[2] == 0) num_boxes.push_back(box);
  });
  return num_boxes;
}

void require(bool condition, const std::string& problem) {
  if (!condition) throw std::invalid_argument(problem);
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
  // Times are rounded to picoseconds, so that sums of the same terms in different order compare equal.
  const auto total = std::llround((p.time_ns + p.sweep_ns) * 1e3);
  const Counts slower_dimensions_first{-p.dims[0], -p.dims[1], -p.dims[2]};
  return std::tuple{total,          p.box[0] * p.box[1] * p.box[2], p.num_network_messages,
                    p.num_messages, slower_dimensions_first,        p.node_dims};
}

}  // namespace

std::vector<Plan> make_plans(const PlanRequest& request) {
  check_request(request);
  std::vector<Plan> plans;
  for_each_factorization(request.ranks, [&](const Counts& dims) {
    if (!can_split_grid(request, dims)) return;
    for (const Counts& box : list_node_boxes(request, dims))
      plans.push_back(make_plan_of_slowest_rank(request, dims, box));
  });
  require(!plans.empty(), "no split of " + std::to_string(request.ranks) + " ranks fits this grid");
  std::sort(plans.begin(), plans.end(), [](const Plan& a, const Plan& b) { return sort_key_of(a) < sort_key_of(b); });
  return plans;
}

}  // namespace nearfield::planning

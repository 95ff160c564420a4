// Plans the decomposition of a grid over ranks and nodes: enumerates all decompositions of the ranks over the
// dimensions, and all placements in which the ranks of a node form a box, and predicts the time of a halo exchange on
// the slowest rank. The optimum is a trade-off between few long contiguous faces and little surface (paper S3,
// papers/S3/README.md, section 5). Arrays are in C order and include their halo, so the last dimension is contiguous.
// The model ignores the topology of the network, and assumes that exchange and sweep do not overlap.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/costs.hpp"

namespace nearfield::planning {

constexpr int max_dimensions = 3;
template <typename T>
using PerDimension = std::array<T, max_dimensions>;
/// Values for both sides of a dimension: towards lower indices, and towards higher ones.
template <typename T>
using Sides = std::array<T, 2>;

struct PlanRequest {
  int dimensions = 3;
  PerDimension<std::int64_t> extents{1, 1, 1};  ///< cells of the whole grid, slowest first; unused leading ones are 1
  PerDimension<Sides<int>> halo{};              ///< width of a rank's ghost cells at each side
  PerDimension<Sides<bool>> periodic{};  ///< whether ghost cells beyond the grid are filled from its opposite end
  bool corners = false;                  ///< whether cells of diagonal neighbours are read, too
  int ranks = 1;
  int ranks_per_node = 1;  ///< if at least `ranks`, all ranks are on one node
  int element_bytes = 8;
  PerDimension<int> fixed_dims{};  ///< ranks along each dimension, if the user has set them; 0: to be chosen
  Costs costs;
};

/// The messages that the slowest rank receives along one dimension. `message` is the largest of them.
struct FaceMessages {
  MessageLayout message;
  int num_messages = 0;  ///< number of sides with a neighbour: 0, 1 or 2
};

struct Plan {
  PerDimension<int> dims{1, 1, 1};       ///< ranks along each dimension
  PerDimension<int> node_dims{1, 1, 1};  ///< ranks of one node; 1, 1, 1: every neighbour is on another node
  double time_ns = 0;                    ///< of an exchange on the slowest rank: the sum of `time_parts`
  MessageTime time_parts{};
  double sweep_ns = 0;                      ///< of a sweep over the slowest rank's cells; 0: unknown
  int num_messages = 0;                     ///< that the slowest rank receives, or reads in place, per exchange
  int num_network_messages = 0;             ///< of these, messages from other nodes
  PerDimension<std::int64_t> box{1, 1, 1};  ///< cells of the slowest rank
  PerDimension<FaceMessages> faces{};
};

/// Returns all plans, sorted by the time of exchange and sweep together; at equal times by the number of cells of the
/// slowest rank, then by messages between nodes, then by messages; then plans that split slower dimensions come first.
/// The order is deterministic. Throws std::invalid_argument if the request is invalid, or if no decomposition exists: a
/// rank needs at least as many cells as its neighbours read from it.
std::vector<Plan> make_plans(const PlanRequest& request);

}  // namespace nearfield::planning

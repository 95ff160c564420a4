// Plans the decomposition of a grid over ranks and nodes: enumerates all decompositions of the ranks over the
// dimensions, and all placements in which the ranks of a node form a box, and predicts the time of a halo exchange on
// the slowest rank (S3, section 5: the trade-off between few long contiguous faces and little surface). Arrays are in C
// order and include their halo, so the last dimension is contiguous. Left out: torus and tree topologies, and overlap
// of exchange and sweep.
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
  PerDimension<Sides<int>> halo{};              ///< ghost cells of a rank
  PerDimension<Sides<bool>> periodic{};  ///< are ghost cells beyond the edge of the grid filled from the other end?
  bool corners = false;                  ///< are diagonal neighbours read as well?
  int ranks = 1;
  int ranks_per_node = 1;  ///< if at least `ranks`, all ranks are on one node
  int element_bytes = 8;
  PerDimension<int> fixed_dims{};  ///< ranks along a dimension chosen by the user; 0: free
  Costs costs;
};

/// The messages that the slowest rank receives along one dimension. `message` is the largest of them.
struct FaceMessages {
  MessageLayout message;
  int messages = 0;  ///< number of sides with a neighbour: 0, 1 or 2
};

struct Plan {
  PerDimension<int> dims{1, 1, 1};       ///< ranks along each dimension
  PerDimension<int> node_dims{1, 1, 1};  ///< ranks of one node; 1, 1, 1: every neighbour is on another node
  double time_ns = 0;                    ///< of an exchange on the slowest rank: the sum of `parts`
  MessageTime parts{};
  double sweep_ns = 0;                      ///< of a sweep over the slowest rank's cells; 0: unknown
  int messages = 0;                         ///< that the slowest rank receives, or reads in place, per exchange
  int network_messages = 0;                 ///< of these, messages from other nodes
  PerDimension<std::int64_t> box{1, 1, 1};  ///< cells of the slowest rank
  PerDimension<FaceMessages> faces{};
};

/// Returns all plans, best first: the shortest time of exchange and sweep together; at equal times the fewest cells,
/// then messages between nodes, then messages, then decompositions of slower dimensions. The order is deterministic.
/// Throws std::invalid_argument if the request is invalid, or if it has no decomposition (a rank needs at least as many
/// cells as its neighbours read from it).
std::vector<Plan> make_plans(const PlanRequest& request);

}  // namespace nearfield::planning

#include "halo/decomposition.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>

namespace nearfield::halo {

void check_decomposition(const Layout& layout, int dimensions, int ranks) {
  const auto fail = [](const std::string& text) { throw Error(ErrorCode::argument, text); };
  if (dimensions < 1 || dimensions > 3) fail("a grid has 1 to 3 dimensions");
  int product = 1;
  for (int d = 0; d < 3; ++d) {
    const auto name = "dimension " + std::to_string(d - 3 + dimensions);
    if (layout.extents[d] < 1) fail(name + " has no cells");
    if (layout.halo[d][0] < 0 || layout.halo[d][1] < 0) fail(name + " has a negative halo");
    if (layout.dims[d] < 0) fail(name + " has a negative number of ranks");
    if (layout.dims[d] > 0) product *= layout.dims[d];
  }
  const bool open = std::any_of(layout.dims.begin(), layout.dims.end(), [](int n) { return n == 0; });
  if (open ? ranks % product != 0 : ranks != product)
    fail("dims make " + std::to_string(product) + " ranks, but the communicator has " + std::to_string(ranks));
}

std::vector<planning::Plan> list_decompositions_by_time(const Layout& layout, int dimensions,
                                                        const planning::Costs& costs, const Node& node,
                                                        int ranks_per_node) {
  planning::PlanRequest request;
  request.dimensions = dimensions;
  request.extents = layout.extents;
  request.halo = layout.halo;
  request.periodic = layout.periodic;
  request.corners = layout.corners;
  request.ranks = node.size;
  request.ranks_per_node = ranks_per_node;
  request.element_bytes = 8;
  request.fixed_dims = layout.dims;
  request.costs = costs;
  try {
    return planning::make_plans(request);
  } catch (const std::invalid_argument&) {
    planning::Plan plan;
    plan.dims = layout.dims;
    MPI_Dims_create(node.size, 3, plan.dims.data());
    return {plan};
  }
}

int min_ranks_per_node(const Node& node) {
  std::map<int, int> counts;
  for (const int number : node.node_by_rank) ++counts[number];
  return std::min_element(counts.begin(), counts.end(), [](auto& a, auto& b) { return a.second < b.second; })->second;
}

}  // namespace nearfield::halo

#include "halo/placement.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace nearfield::halo {
namespace {

std::vector<std::vector<int>> ranks_by_node(const std::vector<int>& node_by_rank) {
  std::map<int, std::vector<int>> nodes;  // ordered by node number
  for (std::size_t rank = 0; rank < node_by_rank.size(); ++rank)
    nodes[node_by_rank[rank]].push_back(static_cast<int>(rank));
  std::vector<std::vector<int>> list;
  for (auto& [node, ranks] : nodes) list.push_back(std::move(ranks));
  return list;
}

void assign_node_boxes(const Layout& layout, const std::vector<std::vector<int>>& nodes, const Ranks& box,
                       Placement& placement) {
  const Ranks counts{layout.dims[0] / box[0], layout.dims[1] / box[1], layout.dims[2] / box[2]};
  std::size_t node = 0;
  for_each_place(counts, [&](const Ranks& block) {
    std::size_t local = 0;
    for_each_place(box, [&](const Ranks& inner) {
      const Ranks place{block[0] * box[0] + inner[0], block[1] * box[1] + inner[1], block[2] * box[2] + inner[2]};
      placement.rank_by_place_number[layout.place_number(place)] = nodes[node][local++];
    });
    ++node;
  });
}

// Forms the groups that share an array: starting at each place without a group, grows a box of places whose ranks are
// on the same node.
void form_array_groups(const Layout& layout, const std::vector<int>& node_by_rank, bool makes_single_rank_groups,
                       Placement& placement) {
  const auto can_join = [&](const Ranks& place, int node) {
    const int rank = placement.rank_by_place_number[layout.place_number(place)];
    return placement.array_group_by_rank[rank] < 0 && node_by_rank[rank] == node;
  };
  const auto can_all_join = [&](const Ranks& lo, const Ranks& hi, int node) {
    bool can_join_all = true;
    for_each_place({hi[0] - lo[0], hi[1] - lo[1], hi[2] - lo[2]}, [&](const Ranks& p) {
      can_join_all = can_join_all && can_join({lo[0] + p[0], lo[1] + p[1], lo[2] + p[2]}, node);
    });
    return can_join_all;
  };
  int num_groups = 0;
  for_each_place(layout.dims, [&](const Ranks& lo) {
    const int first = placement.rank_by_place_number[layout.place_number(lo)];
    if (placement.array_group_by_rank[first] >= 0) return;
    const int node = node_by_rank[first];
    Ranks hi{lo[0] + 1, lo[1] + 1, lo[2] + 1};
    for (int d = 2; d >= 0 && !makes_single_rank_groups; --d)
      while (hi[d] < layout.dims[d]) {
        Ranks from = lo, to = hi;
        from[d] = hi[d];
        to[d] = hi[d] + 1;
        if (!can_all_join(from, to, node)) break;
        ++hi[d];
      }
    for_each_place({hi[0] - lo[0], hi[1] - lo[1], hi[2] - lo[2]}, [&](const Ranks& p) {
      placement.array_group_by_rank[placement.rank_by_place_number[layout.place_number(
          {lo[0] + p[0], lo[1] + p[1], lo[2] + p[2]})]] = num_groups;
    });
    ++num_groups;
  });
}

}  // namespace

Placement place_ranks(const Layout& layout, const std::vector<int>& node_by_rank, const Ranks& node_dims,
                      bool makes_single_rank_groups) {
  Placement placement;
  const auto num_ranks = node_by_rank.size();
  placement.rank_by_place_number.resize(num_ranks);
  placement.place_by_rank.resize(num_ranks);
  placement.array_group_by_rank.assign(num_ranks, -1);
  std::iota(placement.rank_by_place_number.begin(), placement.rank_by_place_number.end(), 0);
  const auto nodes = ranks_by_node(node_by_rank);
  const auto box = static_cast<std::size_t>(node_dims[0]) * static_cast<std::size_t>(node_dims[1] * node_dims[2]);
  if (std::all_of(nodes.begin(), nodes.end(), [&](const auto& node) { return node.size() == box; }))
    assign_node_boxes(layout, nodes, node_dims, placement);
  for_each_place(layout.dims, [&](const Ranks& place) {
    placement.place_by_rank[static_cast<std::size_t>(placement.rank_by_place_number[layout.place_number(place)])] =
        place;
  });
  form_array_groups(layout, node_by_rank, makes_single_rank_groups, placement);
  return placement;
}

}  // namespace nearfield::halo

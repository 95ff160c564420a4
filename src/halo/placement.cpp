#include "halo/placement.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace nearfield::halo {
namespace {

std::vector<std::vector<int>> ranks_by_node(const std::vector<int>& node_of) {
  std::map<int, std::vector<int>> nodes;  // ordered by number of the node
  for (std::size_t rank = 0; rank < node_of.size(); ++rank) nodes[node_of[rank]].push_back(static_cast<int>(rank));
  std::vector<std::vector<int>> list;
  for (auto& [node, ranks] : nodes) list.push_back(std::move(ranks));
  return list;
}

void place_by_node(const Layout& layout, const std::vector<std::vector<int>>& nodes, const Ranks& box,
                   Placement& made) {
  const Ranks counts{layout.dims[0] / box[0], layout.dims[1] / box[1], layout.dims[2] / box[2]};
  std::size_t node = 0;
  for_each_place(counts, [&](const Ranks& block) {
    std::size_t local = 0;
    for_each_place(box, [&](const Ranks& inner) {
      const Ranks at{block[0] * box[0] + inner[0], block[1] * box[1] + inner[1], block[2] * box[2] + inner[2]};
      made.rank_at[layout.place_number(at)] = nodes[node][local++];
    });
    ++node;
  });
}

// Forms the groups that share an array: starting at each place without a group, grows a box of places whose ranks are
// on the same node.
void form_array_groups(const Layout& layout, const std::vector<int>& node_of, bool single, Placement& made) {
  const auto joins = [&](const Ranks& at, int node) {
    const int rank = made.rank_at[layout.place_number(at)];
    return made.group_of[rank] < 0 && node_of[rank] == node;
  };
  const auto all_join = [&](const Ranks& lo, const Ranks& hi, int node) {
    bool all = true;
    for_each_place({hi[0] - lo[0], hi[1] - lo[1], hi[2] - lo[2]},
                   [&](const Ranks& p) { all = all && joins({lo[0] + p[0], lo[1] + p[1], lo[2] + p[2]}, node); });
    return all;
  };
  int groups = 0;
  for_each_place(layout.dims, [&](const Ranks& lo) {
    const int first = made.rank_at[layout.place_number(lo)];
    if (made.group_of[first] >= 0) return;
    const int node = node_of[first];
    Ranks hi{lo[0] + 1, lo[1] + 1, lo[2] + 1};
    for (int d = 2; d >= 0 && !single; --d)
      while (hi[d] < layout.dims[d]) {
        Ranks from = lo, to = hi;
        from[d] = hi[d];
        to[d] = hi[d] + 1;
        if (!all_join(from, to, node)) break;
        ++hi[d];
      }
    for_each_place({hi[0] - lo[0], hi[1] - lo[1], hi[2] - lo[2]}, [&](const Ranks& p) {
      made.group_of[made.rank_at[layout.place_number({lo[0] + p[0], lo[1] + p[1], lo[2] + p[2]})]] = groups;
    });
    ++groups;
  });
}

}  // namespace

Placement place_ranks(const Layout& layout, const std::vector<int>& node_of, const Ranks& node_dims, bool single) {
  Placement made;
  const auto count = node_of.size();
  made.rank_at.resize(count);
  made.place_of.resize(count);
  made.group_of.assign(count, -1);
  std::iota(made.rank_at.begin(), made.rank_at.end(), 0);
  const auto nodes = ranks_by_node(node_of);
  const auto box = static_cast<std::size_t>(node_dims[0]) * static_cast<std::size_t>(node_dims[1] * node_dims[2]);
  if (std::all_of(nodes.begin(), nodes.end(), [&](const auto& node) { return node.size() == box; }))
    place_by_node(layout, nodes, node_dims, made);
  for_each_place(layout.dims, [&](const Ranks& at) {
    made.place_of[static_cast<std::size_t>(made.rank_at[layout.place_number(at)])] = at;
  });
  form_array_groups(layout, node_of, single, made);
  return made;
}

}  // namespace nearfield::halo

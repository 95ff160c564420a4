#include "halo/field.hpp"

#include <algorithm>
#include <map>

namespace nearfield::halo {
namespace {

// The memory layout of an array that the library allocates. The first cell of each row that is no ghost cell begins a
// cache line, if the number of ghost cells permits it. The distances between rows and between planes are no multiples
// of 4 KiB, so that rows and planes do not map to the same cache sets.
struct ArrayShape {
  Triple strides{};
  std::size_t lead = 0;   // unused bytes before the cell at box.lo
  std::size_t bytes = 0;  // size of the array in memory
};

ArrayShape array_shape_of(const Box& box, int low_ghosts, std::size_t cell_bytes) {
  constexpr std::size_t line = 64;
  // Planes are multiples of the row size, as in Fortran arrays.
  const auto avoid_page_multiple = [](std::size_t bytes, std::size_t increment) {
    return bytes % 4096 == 0 ? bytes + increment : bytes;
  };
  const auto extents = box.extents();
  ArrayShape shape;
  shape.lead = (line - static_cast<std::size_t>(low_ghosts) * cell_bytes % line) % line;
  const auto row = (shape.lead + static_cast<std::size_t>(extents[2]) * cell_bytes + line - 1) / line * line;
  const auto rows = avoid_page_multiple(row, line);
  const auto planes = avoid_page_multiple(rows * static_cast<std::size_t>(extents[1]), rows);
  shape.strides = {static_cast<Index>(planes), static_cast<Index>(rows), static_cast<Index>(cell_bytes)};
  shape.bytes = planes * static_cast<std::size_t>(extents[0]) + line;
  return shape;
}

struct GroupArray {
  Box box;
  std::vector<int> members;  // local ranks that share the array
  ArrayShape shape;
  std::size_t offset = 0;
};

std::vector<GroupArray> list_group_arrays(const Node& node, const Layout& layout, const Placement& placement,
                                          const FieldShape& shape) {
  std::map<int, GroupArray> array_by_group;  // by number of the group, or by rank if every rank is a group
  for (int local = 0; local < node.local_size; ++local) {
    const auto rank = static_cast<std::size_t>(node.rank_by_local_rank[static_cast<std::size_t>(local)]);
    auto& group = array_by_group[shape.is_in_place ? placement.array_group_by_rank[rank] : static_cast<int>(rank)];
    group.members.push_back(local);
    group.box = bounding_box(group.box, layout.cells_of(placement.place_by_rank[rank]));
  }
  std::vector<GroupArray> list;
  std::size_t offset = 0;
  for (auto& [group_number, group] : array_by_group) {
    if (!group.box.empty()) group.box = group.box.widened_by(layout.halo);
    group.shape = array_shape_of(group.box, layout.halo[2][0], shape.cell_bytes);
    const std::size_t page = group.shape.bytes >= huge_page_bytes / 2 ? huge_page_bytes : 4096;
    offset = (offset + page - 1) / page * page;
    group.offset = offset + static_cast<std::size_t>(shape.field_number % 13) * 320;
    offset = group.offset + group.shape.lead + group.shape.bytes;
    list.push_back(std::move(group));
  }
  return list;
}

// Returns, by local rank, the offset at which the part of the memory begins that the rank touches first. The part is
// the rank's slab in the slowest dimension; ranks in the same slab get equal parts of the slab.
std::vector<std::size_t> first_touch_offsets(const Node& node, const Layout& layout, const Placement& placement,
                                             const std::vector<GroupArray>& groups) {
  std::vector<std::size_t> begin_by_local_rank(static_cast<std::size_t>(node.local_size), 0);
  for (const auto& group : groups) {
    std::map<int, std::vector<int>> slabs;
    const auto place = [&](int local) -> const Ranks& {
      return placement
          .place_by_rank[static_cast<std::size_t>(node.rank_by_local_rank[static_cast<std::size_t>(local)])];
    };
    for (const int local : group.members) slabs[place(local)[0]].push_back(local);
    for (const auto& [slab, members] : slabs) {
      const auto plane = static_cast<std::size_t>(group.shape.strides[0]);
      const auto cells = [&](int at) {
        return static_cast<std::size_t>(std::max<Index>(0, layout.first_cell_of(0, at) - group.box.lo[0]));
      };
      const auto begin = cells(slab) * plane, end = cells(slab + 1) * plane;
      for (std::size_t i = 0; i < members.size(); ++i)
        begin_by_local_rank[static_cast<std::size_t>(members[i])] =
            group.offset + std::min(begin + (end - begin) / members.size() * i, group.shape.bytes);
    }
  }
  return begin_by_local_rank;
}

}  // namespace

Field::Field(const Node& node, const Layout& layout, const Placement& placement, const FieldShape& shape)
    : is_in_place_(shape.is_in_place) {
  const auto groups = list_group_arrays(node, layout, placement, shape);
  const auto total = groups.back().offset + groups.back().shape.lead + groups.back().shape.bytes;
  const auto begin_by_local_rank = first_touch_offsets(node, layout, placement, groups);
  const auto own_begin = begin_by_local_rank[static_cast<std::size_t>(node.local_rank)];
  std::size_t end = total;
  bool first = true;
  for (int local = 0; local < node.local_size; ++local) {
    const auto begin = begin_by_local_rank[static_cast<std::size_t>(local)];
    const bool is_before = begin < own_begin || (begin == own_begin && local < node.local_rank);
    if (is_before) first = false;
    if (!is_before && local != node.local_rank) end = std::min(end, begin);
  }
  memory_ = std::make_unique<Segment>(node, total, first ? 0 : own_begin, end, shape.backing);
  cells_.array_by_local_rank.resize(static_cast<std::size_t>(node.local_size));
  for (const auto& group : groups)
    for (const int local : group.members)
      cells_.array_by_local_rank[static_cast<std::size_t>(local)] = {group.box,
                                                                     memory_->data() + group.offset + group.shape.lead,
                                                                     group.shape.strides, shape.cell_bytes, shape.type};
  cells_.local_array = cells_.array_by_local_rank[static_cast<std::size_t>(node.local_rank)];
}

double Field::share_of_unshared_pages(const Node& node, const Layout& layout, const Placement& placement) const {
  constexpr int unowned = -1, several_ranks = -2;
  const auto page = memory_->page_bytes();
  std::vector<int> owners(memory_->bytes() / page + 1, unowned);
  for (int local = 0; local < node.local_size; ++local) {
    const auto& array = cells_.array_by_local_rank[static_cast<std::size_t>(local)];
    const auto rank = static_cast<std::size_t>(node.rank_by_local_rank[static_cast<std::size_t>(local)]);
    const Box rank_box = layout.cells_of(placement.place_by_rank[rank]);
    if (rank_box.empty()) continue;
    const auto spans_array = [&](int d) {
      return rank_box.lo[d] - layout.halo[d][0] == array.box.lo[d] &&
             rank_box.hi[d] + layout.halo[d][1] == array.box.hi[d];
    };
    // Iterates over the longest runs of contiguous cells of the rank: all its cells, its planes, or its rows.
    const Index planes = spans_array(1) && spans_array(2) ? rank_box.extents()[0] : 1,
                rows = spans_array(2) ? rank_box.extents()[1] : 1;
    for (Index i = rank_box.lo[0]; i < rank_box.hi[0]; i += planes)
      for (Index j = rank_box.lo[1]; j < rank_box.hi[1]; j += rows) {
        const auto first = array.at({i, j, rank_box.lo[2]}).first - memory_->data();
        const auto last = array.at({i + planes - 1, j + rows - 1, rank_box.hi[2] - 1}).first - memory_->data();
        const auto end = (static_cast<std::size_t>(last) + array.cell_bytes - 1) / page;
        for (auto p = static_cast<std::size_t>(first) / page; p <= end; ++p)
          owners[p] = owners[p] == unowned || owners[p] == local ? local : several_ranks;
      }
  }
  const auto num_unused_pages = std::count(owners.begin(), owners.end(), unowned);
  const auto num_shared_pages = std::count(owners.begin(), owners.end(), several_ranks);
  const auto num_used_pages = static_cast<double>(owners.size()) - static_cast<double>(num_unused_pages);
  return num_used_pages > 0 ? 1 - static_cast<double>(num_shared_pages) / num_used_pages : 1;
}

}  // namespace nearfield::halo

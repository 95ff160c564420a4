// A field: one array per group of ranks that share an array; all arrays of a node lie in one segment.
#pragma once

#include <vector>

#include "halo/message.hpp"
#include "halo/placement.hpp"
#include "halo/segment.hpp"

namespace nearfield::halo {

struct FieldShape {
  std::size_t cell_bytes;
  NumberType type;
  bool in_place;  ///< false: every rank is a group of its own, with ghost cells
  Backing backing;
  int number;  ///< number of the field in the grid; offsets its cells, so that fields do not share cache sets
};

/// The memory of a field on one node. Construction is collective over the node.
class Field {
 public:
  Field(const Node& node, const Layout& layout, const Placement& placement, const FieldShape& shape);

  const Array& local_array() const { return cells_.mine; }
  const FieldArrays& cells() const { return cells_; }
  bool is_in_place() const { return in_place_; }
  const Segment& memory() const { return *memory_; }
  /// Returns the share (0 to 1) of pages that hold cells of one rank only, among the pages of this node that hold cells
  /// of this field.
  double share_of_unshared_pages(const Node& node, const Layout& layout, const Placement& placement) const;

 private:
  FieldArrays cells_;
  bool in_place_;
  std::unique_ptr<Segment> memory_;
};

}  // namespace nearfield::halo

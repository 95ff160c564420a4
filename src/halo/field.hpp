// A field on one node. Each group of ranks that share an array has one array; all arrays of the node are in one
// segment.
#pragma once

#include <memory>
#include <vector>

#include "halo/message.hpp"
#include "halo/placement.hpp"
#include "halo/segment.hpp"

namespace nearfield::halo {

struct FieldShape {
  std::size_t cell_bytes;
  NumberType type;
  bool is_in_place;  ///< false: every rank has its own array with ghost cells
  SegmentBacking backing;
  int field_number;  ///< number of the field in the grid; offsets its cells, so that fields do not share cache sets
};

/// The memory of a field on one node. Construction is collective over the node.
class Field {
 public:
  Field(const Node& node, const Layout& layout, const Placement& placement, const FieldShape& shape);

  const Array& local_array() const { return cells_.local_array; }
  const FieldArrays& cells() const { return cells_; }
  bool is_in_place() const { return is_in_place_; }
  const Segment& memory() const { return *memory_; }
  /// Returns the share (0 to 1) of this field's pages on this node that contain cells of one rank only. Pages without
  /// cells do not count.
  double share_of_unshared_pages(const Node& node, const Layout& layout, const Placement& placement) const;

 private:
  FieldArrays cells_;
  bool is_in_place_;
  std::unique_ptr<Segment> memory_;
};

}  // namespace nearfield::halo

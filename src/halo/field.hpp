// A field: one array per shared-array group of a node, all of them in one segment.
#pragma once

#include <vector>

#include "halo/message.hpp"
#include "halo/placement.hpp"
#include "halo/segment.hpp"

namespace nearfield::halo {

struct FieldShape {
  std::size_t cell_bytes;
  Type type;
  bool in_place;  ///< if not, every rank is a group of its own
  Backing backing;
  int number;  ///< the field's number in the grid; it offsets cells, so that fields do not share cache sets
};

/// Construction is collective over the node.
class Field {
 public:
  Field(const Node& node, const Layout& layout, const Placement& placement, const FieldShape& shape);

  const Array& mine() const { return cells_.mine; }
  const Cells& cells() const { return cells_; }
  bool in_place() const { return in_place_; }
  const Segment& memory() const { return *memory_; }
  /// Returns, of the node's pages with cells of this field, the share that holds cells of one rank only.
  double share_of_unshared_pages(const Node& node, const Layout& layout, const Placement& placement) const;

 private:
  Cells cells_;
  bool in_place_;
  std::unique_ptr<Segment> memory_;
};

}  // namespace nearfield::halo

// The messages that one rank sends and receives in a halo exchange. All ranks list their messages in the same order of
// displacements.
#pragma once

#include <vector>

#include "halo/array.hpp"
#include "halo/layout.hpp"

namespace nearfield::halo {

/// A box of cells that moves between two ranks, in the coordinates of this rank and in those of the neighbour. The two
/// differ by multiples of the extents of a periodic grid.
struct Strip {
  Box local_box, neighbor_box;
  Triple extents() const { return local_box.extents(); }
};

/// The message for one displacement in the grid of ranks: this rank receives strips from the rank at that displacement,
/// and sends strips to the rank at the opposite displacement. Either rank may be -1 (none; no strips) or this rank
/// itself.
struct Message {
  int destination = -1, source = -1;  ///< ranks
  std::vector<Strip> send;            ///< own cells
  std::vector<Strip> receive;         ///< own ghost cells; if reversed: own cells to which the received cells are added
};

/// The arrays of one field on this node, or one array of the caller.
struct FieldArrays {
  Array local_array;
  std::vector<Array>
      array_by_local_rank;  ///< local rank -> its array, as mapped in this process; empty if not accessible
};

/// The transfers of a halo exchange: the cells of each array that each pair of ranks exchanges.
struct ExchangePlan {
  std::vector<Message> messages;
  std::vector<FieldArrays> fields;
  bool should_add = false;  ///< add the received cells to the present cells
  /// Neighbours read this rank's cells directly, without a copy. This requires that no rank writes cells in a phase in
  /// which other ranks read them; readers then need not acknowledge. Ranks share ghost cells, so only
  /// finish_exchange() may write them.
  bool reads_in_place = false;
};

/// Returns the total size in bytes of these strips of all fields.
std::size_t message_bytes(const std::vector<Strip>& strips, const std::vector<FieldArrays>& fields);

/// Pack all strips of all fields consecutively into a buffer, or unpack them from it.
void pack_strips(std::byte* buffer, const std::vector<Strip>& strips, const std::vector<FieldArrays>& fields);
void unpack_strips(const std::byte* buffer, const std::vector<Strip>& strips, const std::vector<FieldArrays>& fields,
                   bool should_add);

/// Returns the address of the cells if `strips` is one strip of one field that is contiguous in memory; otherwise
/// nullptr.
std::byte* contiguous_address(const std::vector<Strip>& strips, const std::vector<FieldArrays>& fields);

}  // namespace nearfield::halo

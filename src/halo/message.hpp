// The messages of a halo exchange, as one rank sends and receives them. All ranks have their messages in the same
// order.
#pragma once

#include <vector>

#include "halo/array.hpp"
#include "halo/layout.hpp"

namespace nearfield::halo {

/// A box of cells that moves between two ranks, in the coordinates of this rank and of the other rank. The two differ
/// by multiples of the extents of a periodic grid.
struct Strip {
  Box mine, theirs;
  Triple extents() const { return mine.extents(); }
};

/// The message for one displacement in the grid of ranks: this rank sends strips to the rank at that displacement, and
/// receives strips from the rank at the opposite displacement. Either rank may be missing (-1, no strips) or be this
/// rank itself.
struct Message {
  int to = -1, from = -1;
  std::vector<Strip> send;     ///< own cells
  std::vector<Strip> receive;  ///< own ghost cells; if reversed: own cells to which the received cells are added
};

/// The arrays of one field on this node, or one array of the caller.
struct FieldArrays {
  Array mine;
  std::vector<Array> of_local;  ///< local rank -> its array, as mapped in this process; empty if not accessible
};

/// The transfers of a halo exchange: the cells of each array that each pair of ranks exchanges.
struct ExchangePlan {
  std::vector<Message> messages;
  std::vector<FieldArrays> fields;
  bool add = false;  ///< add the received cells to the present cells
  /// The fields are read in place: no rank changes cells within the phase in which other ranks read them, so no rank
  /// needs to know when its cells were read. Ghost cells are visible to several ranks, so they change in
  /// finish_exchange() only.
  bool in_place = false;
};

/// Returns the bytes of these strips of all fields.
std::size_t message_bytes(const std::vector<Strip>& strips, const std::vector<FieldArrays>& fields);

/// Packs all strips of all fields consecutively into a buffer, or unpacks them from it.
void pack_strips(std::byte* buffer, const std::vector<Strip>& strips, const std::vector<FieldArrays>& fields);
void unpack_strips(const std::byte* buffer, const std::vector<Strip>& strips, const std::vector<FieldArrays>& fields,
                   bool add);

/// Returns the address of the cells if `strips` is one strip of one field that is contiguous in memory; otherwise
/// nullptr.
std::byte* contiguous_address(const std::vector<Strip>& strips, const std::vector<FieldArrays>& fields);

}  // namespace nearfield::halo

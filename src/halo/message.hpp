// The messages of an exchange for one rank: all ranks have the same list in the same order.
#pragma once

#include <vector>

#include "halo/array.hpp"
#include "halo/layout.hpp"

namespace nearfield::halo {

/// The same cells in the coordinates of both ranks, which differ by turns around a periodic grid.
struct Strip {
  Box mine, theirs;
  Triple extents() const { return mine.extents(); }
};

/// One displacement in the grid of ranks: the strips for the rank there, and those from the rank in the opposite
/// direction. Either rank may be missing (-1, no strips) or this rank itself.
struct Message {
  int to = -1, from = -1;
  std::vector<Strip> send;     ///< own cells
  std::vector<Strip> receive;  ///< own ghost cells; reversed: own cells to be added to
};

/// The arrays of one field, or one array of the caller's.
struct Cells {
  Array mine;
  std::vector<Array> of_local;  ///< local rank -> its array as mapped here; empty if not accessible
};

/// An exchange to be set up: which cells of which arrays move between which ranks.
struct Move {
  std::vector<Message> messages;
  std::vector<Cells> fields;
  bool add = false;  ///< add arriving cells to the present ones
  /// The fields are read in place: no rank changes cells within the phase in which others read them, so nobody needs to
  /// know when they were read; and ghost cells are visible to several ranks, so they change in finish() only.
  bool in_place = false;
};

/// Returns the size in bytes of these strips over all fields.
std::size_t bytes_of(const std::vector<Strip>& strips, const std::vector<Cells>& fields);

/// Pack all strips of all fields consecutively into a buffer, and unpack them.
void gather(std::byte* buffer, const std::vector<Strip>& strips, const std::vector<Cells>& fields);
void scatter(const std::byte* buffer, const std::vector<Strip>& strips, const std::vector<Cells>& fields, bool add);

/// Returns the address of the strips if they are one contiguous strip of one field, else null.
std::byte* contiguous(const std::vector<Strip>& strips, const std::vector<Cells>& fields);

}  // namespace nearfield::halo

// The ways in which the ranks of a node can share memory. segment.hpp tries them in order.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "halo/error.hpp"
#include "halo/first_touch.hpp"
#include "halo/mapping.hpp"
#include "halo/node.hpp"

namespace nearfield::halo {

struct Problem {
  std::string text;
  ErrorCode code = ErrorCode::memory;
};

struct Backing {
  const char* description;
  /// Returns why memory of this kind cannot hold `bytes` bytes; an empty text if it may. Not collective.
  Problem (*find_obstacle)(std::size_t bytes);
  /// Maps zeroed memory. Collective over the ranks of the node, none of which has found an obstacle. If this rank
  /// fails, returns nullopt and writes `problem`; other ranks may have succeeded.
  std::optional<Mapping> (*try_make)(const Node& node, std::size_t bytes, Problem& problem);
  /// Touches the pages of this rank first. Collective over the ranks of the node, all of which have a mapping. If the
  /// node has too little memory, throws Error(memory) on all of its ranks.
  PageUse (*touch_pages)(const Node& node, const Mapping& mapping, const SegmentPart& part);
};

/// A memfd, or if that is impossible, an unlinked file in /dev/shm; first of huge pages that an administrator has
/// reserved. Later backings can be made where earlier ones cannot.
extern const std::array<Backing, 3> file_backings;
/// MPI_Win_allocate_shared.
extern const std::array<Backing, 1> window_backings;

}  // namespace nearfield::halo

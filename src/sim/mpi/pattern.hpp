// The matching key of messages and receives, as in MPI: the other rank, a tag, and the context of the communicator.
#pragma once

#include <cstdint>

namespace nearfield::sim {

// Identifies a communicator: messages and receives of different contexts never match.
using Context = std::uint64_t;

inline constexpr int any_rank = -1, any_tag = -1;  // MPI_ANY_SOURCE, MPI_ANY_TAG: of receives and probes

// The messages that a receive or a probe matches; for a send, its destination.
struct Pattern {
  int peer = 0;
  int tag = 0;
  Context context = 0;

  bool matches(int from, int other_tag, Context other_context) const {
    return context == other_context && (tag == other_tag || tag == any_tag) && (peer == from || peer == any_rank);
  }
};

}  // namespace nearfield::sim

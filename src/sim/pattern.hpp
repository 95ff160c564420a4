// Messages and receives are compared by this, as in MPI: the other rank, a tag, and the communicator's context.
#pragma once

#include <cstdint>

namespace nearfield::sim {

// Messages and receives of one communicator have one number, and those of two communicators never meet.
using Context = std::uint64_t;

inline constexpr int any_rank = -1, any_tag = -1;  // MPI_ANY_SOURCE, MPI_ANY_TAG: of receives and probes

// The messages that a receive or a probe takes; of a send, where its message goes.
struct Pattern {
  int peer = 0;
  int tag = 0;
  Context context = 0;

  bool takes(int from, int its_tag, Context its_context) const {
    return context == its_context && (tag == its_tag || tag == any_tag) && (peer == from || peer == any_rank);
  }
};

}  // namespace nearfield::sim

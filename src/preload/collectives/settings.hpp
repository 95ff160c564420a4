// The settings of this library: NEARFIELD_COLLECTIVES="key=number,operation@ranks=algorithms" (docs/reference/environment.md).
#pragma once

#include "preload/collectives/selection.hpp"

namespace nearfield::collectives {

struct Settings {
  int after = 2;       // collectives of a communicator that the MPI library does first; all ranks need the same number
  int all_nodes = 0;   // 1: all ranks have this library, on whichever node they are
  int node_ranks = 0;  // for tests: each `node_ranks` ranks of the job, in their order, count as a node; 0: those that
                       // share memory do
  int summary = 0;     // 1: the first rank says at its end how many collectives were direct; 2: and what they took
  bool counts_lengths = false;  // call_lengths.hpp
  std::vector<SelectionEntry> selection;
  std::uint64_t digest = 0;  // of the selection; ranks with different ones must not be direct
};

// Reads the variable at the first call. Parts that are not understood are reported and change nothing.
const Settings& settings();

}  // namespace nearfield::collectives

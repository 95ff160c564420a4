// The settings of this library, from NEARFIELD_COLLECTIVES="key=number,operation@ranks=algorithms"
// (docs/reference/environment.md).
#pragma once

#include "preload/collectives/selection.hpp"

namespace nearfield::collectives {

struct Settings {
  // the first `num_calls_before_connecting` collectives of a communicator go to the MPI library; must be equal on all
  // ranks
  int num_calls_before_connecting = 2;
  int is_library_on_all_nodes = 0;  // 1: all ranks, on all nodes, have loaded this library
  // For tests: this number of consecutive ranks of the job counts as one node. 0: ranks that share memory are a node.
  int ranks_per_node_for_tests = 0;
  int summary_level = 0;  // 1: rank 0 prints, in MPI_Finalize, how many collectives were direct; 2: also their times
  bool counts_lengths = false;  // whether lengths are counted (call_lengths.hpp)
  std::vector<AlgorithmRule> algorithm_rules;
  std::uint64_t rules_digest = 0;  // of `algorithm_rules`; ranks with different digests must not be direct
};

// Returns the settings. The first call parses NEARFIELD_COLLECTIVES; parts with errors are reported and ignored.
const Settings& settings();

}  // namespace nearfield::collectives

// Runs an observed program on a simulated cluster: one stream for each rank.
#pragma once

#include <string>
#include <vector>

#include "sim/run/cluster.hpp"
#include "sim/run/replay/program.hpp"

namespace nearfield::sim::replay {

// One MPI function, called from one call site.
struct CallOutcome {
  std::string name;
  Place place;
  Spent spent;
  std::vector<Ps> timeline;  // time in the call per part of the run (Replayed::part_ps)
};

struct ReplayedOutcome {
  std::vector<CallOutcome> calls;  // sorted by name, then place
  Spent computing;                 // time between calls
  std::uint64_t accesses = 0, skipped_accesses = 0;
  double flops = 0;
  TimingSensitivity timing_sensitivity;
  std::vector<std::string> regions;  // that began
};

struct Replayed {
  Outcome cluster;
  std::vector<ReplayedOutcome> ranks;
  Ps part_ps = 0;  // duration of a part of the timelines (first policy and memory speed)
};

// Stream number r is that of rank r; there is one for each rank of the cluster. With several shards, all call it with
// equal arguments; each needs only the streams of its own ranks, and the first one gets the result of all
// (merge_shards.hpp). PerfCounters are counted if the options have count_sides. Throws std::invalid_argument for an
// impossible cluster, std::runtime_error for a stream that cannot be replayed, and Deadlock, with a line for each rank
// that waits.
Replayed run(const Machine& machine, const ClusterOptions& cluster, const std::vector<Stream>& streams,
             const Options& options);

}  // namespace nearfield::sim::replay

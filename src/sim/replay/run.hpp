// Runs an observed program on a simulated cluster: one stream for each rank.
#pragma once

#include <string>
#include <vector>

#include "sim/cluster.hpp"
#include "sim/replay/program.hpp"

namespace nearfield::sim::replay {

// One function of MPI, called from one place.
struct CallOutcome {
  std::string name;
  Place place;
  Spent spent;
  std::vector<Ps> timeline;  // the time in it, by parts of the run (Replayed::part_ps)
};

struct ReplayedOutcome {
  std::vector<CallOutcome> calls;  // by name, then place
  Spent computing;                 // between calls
  std::uint64_t accesses = 0, skipped_accesses = 0;
  double flops = 0;
  Dependence dependence;
  std::vector<std::string> regions;  // that began
};

struct Replayed {
  Outcome cluster;
  std::vector<ReplayedOutcome> ranks;
  Ps part_ps = 0;  // how long a part of the timelines is, which are of the first policy and memory speed
};

// Stream number r is of rank r, and there are as many as the cluster has ranks. With several shards all call it equally;
// each needs the streams of its own ranks only, and the first one gets the result of all (joined.hpp). Seen is counted if
// the options say count_sides. Throws std::invalid_argument for an impossible cluster, std::runtime_error for a stream
// that cannot be replayed, and Deadlock, with a line for each rank that waits.
Replayed run(const Machine& machine, const ClusterOptions& cluster, const std::vector<Stream>& streams,
             const Options& options);

}  // namespace nearfield::sim::replay

// Runs a recorded or live program on a simulated cluster: one stream for each rank.
#pragma once

#include <string>
#include <vector>

#include "sim/run/cluster.hpp"
#include "sim/run/replay/program.hpp"

namespace nearfield::sim::replay {

// One MPI function, called from one call site.
struct CallOutcome {
  std::string name;
  CallPlace place;
  TimeSpent spent;
  std::vector<Ps> timeline;  // time in the call per part of the run (ReplayResult::bin_ps)
  std::vector<CallInterval> intervals;
  ReceivedData received;  // empty unless the options have first_reads
};

struct RankReplayResult {
  std::vector<CallOutcome> calls;  // sorted by name, then place
  TimeSpent computing;             // time between calls
  std::uint64_t accesses = 0, skipped_accesses = 0;
  double flops = 0;
  TimingSensitivity timing_sensitivity;
  std::vector<std::string> regions;  // names of the regions that began
};

struct ReplayResult {
  Outcome cluster;
  std::vector<RankReplayResult> ranks;
  Ps bin_ps = 0;  // duration of a part of the timelines (first policy and memory speed)
};

// `streams` has one stream for each rank of the cluster, in the order of ranks. With several shards, all shards
// call this function with equal arguments; each shard needs only the streams of its own ranks, and the first shard gets
// the result of all (merge_shards.hpp). PerfCounters are counted if the options have needs_core_counters. Throws
// std::invalid_argument for an impossible cluster, std::runtime_error for a stream that cannot be replayed, and
// Deadlock, with a line for each rank that waits.
ReplayResult run_replay(const Machine& machine, const ClusterOptions& cluster, const std::vector<RankStream>& streams,
                        const ReplayOptions& options);

}  // namespace nearfield::sim::replay

// Merges the results of all shards of a simulation.
#pragma once

#include "sim/run/replay/run.hpp"

namespace nearfield::sim::replay {

// Is called by all shards. Returns the result of all ranks and nodes on the first shard, and `mine` on the other
// shards. The parts of timelines must have the same width on all shards.
ReplayResult merge_shards(ReplayResult mine, Shards& shards);

}  // namespace nearfield::sim::replay

// Merges the results of all shards of a simulation.
#pragma once

#include "sim/run/replay/run.hpp"

namespace nearfield::sim::replay {

// Must be called by all shards. Returns the result of all ranks and nodes on the first shard, and `own_result` on the
// other shards. The bins of timelines must have the same width on all shards.
ReplayResult merge_shards(ReplayResult own_result, Shards& shards);

}  // namespace nearfield::sim::replay

// Merges the results of all shards of a run.
#pragma once

#include "sim/run/replay/run.hpp"

namespace nearfield::sim::replay {

// Is called by all shards. Returns the result of all ranks and nodes on the first shard, and `mine` on the others. The
// parts of timelines must be equally wide on all.
Replayed merge_shards(Replayed mine, Shards& shards);

}  // namespace nearfield::sim::replay

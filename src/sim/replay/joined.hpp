// Puts together what the shards of a run found, each of its own ranks and nodes.
#pragma once

#include "sim/replay/run.hpp"

namespace nearfield::sim::replay {

// Is called by all shards. Returns what a run without shards would have found to the first one, and to the others what
// they found themselves. Parts of timelines must be equally long on all.
Replayed joined(Replayed mine, Shards& shards);

}  // namespace nearfield::sim::replay

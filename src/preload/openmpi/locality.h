// The distance of two processes of a node, from Open MPI's locality flags.
#pragma once

#include <stdint.h>

// Returns the distance of a peer, numbered as in base/distances.h. `locality`: the peer's opal_proc_t.proc_flags. Ranks
// that are not pinned have the distance same_node.
int distance_of_locality(uint16_t locality);

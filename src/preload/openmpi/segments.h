// Finds the addresses at which vader has mapped each peer's segment, which holds the peer's messages, in this process.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct peer;  // peers.h

// Sets `begin` and `end` of each peer, by /proc/self/maps. Returns false if the segment of a reachable peer is not
// found (System V, XPMEM).
bool locate_segments(struct peer** peers, size_t n);

// Finds where the memory of each peer, which holds messages of the stock transport, is mapped in this process.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct peer;  // peers.h

// Sets `begin` and `end` of each peer. Returns false if those of a reachable one are not found (sysv, XPMEM).
bool segments_locate(struct peer** peers, size_t n);

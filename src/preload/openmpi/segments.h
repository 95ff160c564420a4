// Finds where each peer's memory, which holds messages of vader, is mapped in this process.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct peer;  // peers.h

// Sets `begin` and `end` of each peer. Returns false if they are not found for a reachable peer (sysv, XPMEM).
bool segments_locate(struct peer** peers, size_t n);

// Detects whether other threads compete for the core on which this thread runs.
#pragma once

#include <cstdint>

namespace nearfield::collectives {

using Nanoseconds = std::int64_t;

// Returns whether this thread was recently runnable without a core for more than 1/20 of the time. Then a thread that
// waits for a peer should sleep, so that other threads, possibly the peer, can run. Returns true if the kernel does not
// report such delays. `now` is the time of CLOCK_MONOTONIC. Reads the kernel's counter at most once in 20 ms.
bool is_core_shared(Nanoseconds now);

}  // namespace nearfield::collectives

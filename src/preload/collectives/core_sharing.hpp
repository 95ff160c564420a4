// Do other threads need the core that this thread runs on?
#pragma once

#include <cstdint>

namespace nearfield::collectives {

using Nanoseconds = std::int64_t;

// Returns whether this thread has lately waited for a core, though it was ready to run, during more than a twentieth of
// the time: then whoever waits for a peer should sleep, so that the others, and maybe the peer, can run. Where the
// system does not report it, returns true. `now` is the time of CLOCK_MONOTONIC. Asks the system once in 20 ms.
bool is_core_shared(Nanoseconds now);

}  // namespace nearfield::collectives

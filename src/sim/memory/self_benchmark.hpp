// lmbench and STREAM inside the simulator: what they would measure on a described machine. If that differs from the
// description, the machine is not simulated.
#pragma once

#include <vector>

#include "machine/machine.hpp"

namespace nearfield::sim {

// Returns the ns per load of a pointer chase whose loads all hit one level: every cache, innermost first, then memory.
// The chase has no streams, so that nothing is prefetched, and no translation, which the description has separately.
std::vector<double> chase_latencies_ns(const Machine& machine);

// Returns the ns per load of such a chase in the memory of another hub (0: core 0's own), which no cache has.
double chase_latency_from_ns(const Machine& machine, int hub);

// Returns the traffic of one memory's bus in 10^9 bytes per second while all its cores copy arrays that no cache
// holds. Everything that crosses the bus counts, including lines that stores fetch and caches write back.
double copy_traffic_gb_per_s(const Machine& machine);

}  // namespace nearfield::sim

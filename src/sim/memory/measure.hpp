// lmbench and STREAM inside the simulator: what a described machine's memory does when it is measured as a real one
// would be. If that is not what the description says, the machine is not simulated.
#pragma once

#include <vector>

#include "machine/machine.hpp"

namespace nearfield::sim {

// ns per load of a chain of dependent loads that all hit one level: every cache, nearest first, then memory. In the
// order of no stream, so that nothing is prefetched; without translation, which the description has apart.
std::vector<double> chase_latencies_ns(const Machine& machine);

// ns per load of such a chain in the memory of another hub (or of core 0's own: 0), which no cache has.
double chase_latency_from_ns(const Machine& machine, int hub);

// 10^9 bytes per second of one memory's bus while all its cores copy arrays that no cache holds. Everything that
// crosses the bus counts, also what stores fetch and caches write back.
double copy_traffic_gb_per_s(const Machine& machine);

}  // namespace nearfield::sim

// The measurements of lmbench and STREAM on the simulated machine. If their results differ from the machine's
// description, the simulator does not reproduce the machine.
#pragma once

#include <vector>

#include "machine/machine.hpp"

namespace nearfield::sim {

// Returns, for each cache level (innermost first) and for memory, the ns per load of a pointer chase whose loads all
// hit that level. Without prefetcher and without TLBs, whose costs are described separately.
std::vector<double> chase_latencies_ns(const Machine& machine);

// Returns the ns per load of a pointer chase by core 0 through uncached lines in the memory of a hub (0: core 0's own).
double chase_latency_from_ns(const Machine& machine, int hub);

// Returns the traffic of one memory's bus in 10^9 bytes per second while all its cores copy arrays that no cache
// holds. Everything that crosses the bus counts, including lines that stores fetch and caches write back.
double copy_traffic_gb_per_s(const Machine& machine);

}  // namespace nearfield::sim

// The measurements of lmbench and STREAM on the simulated machine. If their results differ from the machine's
// description, the simulator does not reproduce the machine.
#pragma once

#include <vector>

#include "machine/machine.hpp"

namespace nearfield::sim {

// Returns, for each cache level (innermost first) and for memory, the ns per load of a pointer chase whose loads all
// hit that level. The prefetcher and the TLBs are switched off, since their effects are described separately.
std::vector<double> chase_latencies_ns(const Machine& machine);

// Returns the ns per load of a pointer chase by core 0 through uncached lines in the memory of a hub (0: core 0's own).
double chase_latency_from_ns(const Machine& machine, int hub);

// Returns the traffic on the bus of one memory, in 10^9 bytes per second, while all cores of that memory copy arrays
// that no cache holds. All bytes that cross the bus count, including lines that stores fetch and caches write back.
double copy_traffic_gb_per_s(const Machine& machine);

}  // namespace nearfield::sim

// Reads the operating system's counters of this process, and measures the cost of a page fault.
#pragma once

#include "preload/forecast/format.hpp"

namespace nearfield::forecast {

ResourceUsage read_usage();
void record_affinity_mask(FileHeader& header);
// Returns the mean cost, in ns, of page faults in private memory; 0 if memory cannot be mapped.
double measure_page_fault_ns();

}  // namespace nearfield::forecast

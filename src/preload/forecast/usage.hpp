// Operating system counters of this process, and the cost of a page fault.
#pragma once

#include "preload/forecast/format.hpp"

namespace nearfield::forecast {

Usage usage_now();
void note_cores(Header& header);
// Returns the mean cost in ns of a few page faults of private memory.
double measure_fault_ns();

}  // namespace nearfield::forecast

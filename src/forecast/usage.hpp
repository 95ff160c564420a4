// What the system says of this process, and what a page fault costs.
#pragma once

#include "forecast/format.hpp"

namespace nearfield::forecast {

Usage usage_now();
void note_cores(Header& header);
// Returns the ns of a page fault of private memory, from a few.
double measure_fault_ns();

}  // namespace nearfield::forecast

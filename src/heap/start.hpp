// Starts the library when it is loaded, opens the heap when MPI has been initialized, and reports when the program ends.
#pragma once

#include "heap/settings.hpp"

namespace nearfield::heap {

const Settings& settings();

// Opens the heap, unless something speaks against it or it is open. Called by the thread that has initialized MPI.
void open_when_initialized();
// Leaves the heap closed for good, unless it is open already; the report gives the reason.
void stay_closed(const char* reason);

}  // namespace nearfield::heap

// Starts the library when it is loaded, opens the heap when MPI has been initialized, writes the report when the
// program ends.
#pragma once

#include "preload/heap/settings.hpp"

namespace nearfield::heap {

const Settings& settings();

// Opens the heap unless it is disabled or open already. Called by the thread that has initialized MPI.
void open_when_initialized();
// Keeps the heap closed permanently, unless it is open already; the report gives the reason.
void stay_closed(const char* reason);

}  // namespace nearfield::heap

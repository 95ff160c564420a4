// Starts the library when it is loaded, opens the heap when MPI has been initialized, and reports when the program ends.
#pragma once

#include "heap/settings.hpp"

namespace nearfield::heap {

const Settings& settings();

// Opens the heap, unless something speaks against it or it is open. Called by the thread that has initialized MPI.
void open_when_initialized();

}  // namespace nearfield::heap

// Starts the library when it is loaded, and reports when the program ends.
#pragma once

#include "heap/settings.hpp"

namespace nearfield::heap {

const Settings& settings();
// Returns why this process has no shared heap; nullptr if it may have one.
const char* obstacle();

}  // namespace nearfield::heap

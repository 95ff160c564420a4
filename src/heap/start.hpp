// Starts the library when it is loaded, and reports when the program ends.
#pragma once

#include "heap/settings.hpp"

namespace nearfield::heap {

const Settings& settings();

}  // namespace nearfield::heap

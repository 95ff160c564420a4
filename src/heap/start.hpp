// What happens when the library is loaded, and when the program ends.
#pragma once

#include "heap/settings.hpp"

namespace nearfield::heap {

const Settings& settings();
// Why this process has no shared heap; nullptr if it may have one.
const char* obstacle();

}  // namespace nearfield::heap

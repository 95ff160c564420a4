// What happens when the library is loaded, and when the program ends.
#pragma once

#include "heap/settings.hpp"

namespace nearfield::heap {

const Settings& settings();

}  // namespace nearfield::heap

// The executable of this process, as the loader knows it (platform::object_at is here as well).
#pragma once

#include <cstdint>

namespace nearfield::observe {

// Returns what is to be added to an offset in the executable's file for an address of its code.
std::uint64_t executable_base();

}  // namespace nearfield::observe

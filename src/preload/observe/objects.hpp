// The executable of this process, as the loader knows it; also defines platform::object_at.
#pragma once

#include <cstdint>

namespace nearfield::observe {

// Returns the load bias of the executable: the address of its code minus the offset in its file.
std::uint64_t executable_base();

}  // namespace nearfield::observe

// Finds the executable and the shared libraries of this process by dl_iterate_phdr. Also defines platform::object_at
// (process_stream.hpp).
#pragma once

#include <cstdint>

namespace nearfield::observe {

// Returns the load bias of the executable: the difference between code addresses in memory and in the executable's
// file.
std::uint64_t executable_base();

}  // namespace nearfield::observe

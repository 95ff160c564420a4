// Ranks bind themselves: before MPI_Init, because MPIs select transports by the binding, and again after it, because
// some MPIs bind ranks in MPI_Init.
#pragma once

#include "probe/plan.hpp"

namespace nearfield::probe {

/// Binds the calling process to placement.cpu. Throws Failure("binding").
void bind_to(const Placement& placement);

/// Throws Failure("binding") unless this process runs on, and only on, placement.cpu of placement.host.
void verify_binding(int rank, const Placement& placement);

}  // namespace nearfield::probe

// Ranks bind themselves: before MPI_Init, because MPIs choose transports by where a rank is bound, and again
// after it, because some bind ranks in MPI_Init.
#pragma once

#include "probe/plan.hpp"

namespace nearfield::probe {

/// Returns this process's rank from the launcher's environment; -1 if no known launcher started it.
int rank_from_environment();

/// Binds the calling process to placement.cpu. Throws Failure("binding").
void bind_to(const Placement& placement);

/// Throws Failure("binding") unless this process runs on, and only on, placement.cpu of placement.host.
void verify_binding(int rank, const Placement& placement);

}  // namespace nearfield::probe

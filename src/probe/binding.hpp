// Ranks bind themselves to their CPUs before MPI_Init, because an MPI may select its transport by the binding, and
// again after MPI_Init, because some MPIs change the binding.
#pragma once

#include "probe/plan.hpp"

namespace nearfield::probe {

/// Binds the calling process to placement.cpu. Throws Failure("binding").
void bind_process_to_cpu(const Placement& placement);

/// Throws Failure("binding") unless this process runs on placement.cpu of placement.host and is bound to that CPU only.
void verify_binding(int rank, const Placement& placement);

}  // namespace nearfield::probe

// Reads the environment variables that MPI launchers set for the processes they start.
#pragma once

#include <cstdlib>
#include <initializer_list>

namespace nearfield {

/// Returns the rank of this process from the environment variables of known launchers; -1 if none is set.
inline int rank_from_environment() {
  // Set by: Open MPI; PMIx launchers; Hydra and PMI-2; Slurm without PMI.
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char* text = std::getenv(variable)) return std::atoi(text);
  return -1;
}

}  // namespace nearfield

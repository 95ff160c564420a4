// Reads the environment variables that launchers set for their processes.
#pragma once

#include <cstdlib>
#include <initializer_list>

namespace nearfield {

/// Returns this process's rank according to the launcher's environment variables; -1 if no known launcher set them.
inline int rank_from_environment() {
  // Open MPI; PMIx launchers; Hydra and PMI-2; Slurm without PMI.
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char* text = std::getenv(variable)) return std::atoi(text);
  return -1;
}

}  // namespace nearfield

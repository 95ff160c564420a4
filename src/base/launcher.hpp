// Reads the variables that launchers set for the processes that they start.
#pragma once

#include <cstdlib>
#include <initializer_list>

namespace nearfield {

/// Returns this process's rank as the launcher tells it in the environment; -1 if no known launcher does.
inline int rank_from_environment() {
  // Open MPI; PMIx launchers; Hydra and PMI-2; Slurm without PMI.
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char* text = std::getenv(variable)) return std::atoi(text);
  return -1;
}

}  // namespace nearfield

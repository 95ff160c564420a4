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

/// Returns whether a launcher's variable says that this process is not the first of the job on its node.
inline bool is_later_on_node() {
  for (const char* variable : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK", "SLURM_LOCALID"})
    if (const char* text = std::getenv(variable)) return std::atoi(text) > 0;
  return false;
}

}  // namespace nearfield

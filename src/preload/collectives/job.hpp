// Determines whether all ranks have loaded this library. To connect a communicator, this library calls an additional
// collective. A rank without the library would not call it, so all ranks would hang. LD_PRELOAD reaches the ranks on
// the launcher's node; it reaches ranks on other nodes only if the launcher forwards it and the file exists there.
#pragma once

#include <mpi.h>

namespace nearfield::collectives {

// Returns whether all ranks of this process's job have loaded the library: either the launcher's variables say that all
// ranks are on one node, or the settings have all_nodes=1. The result is equal on all ranks that have the library.
bool is_library_loaded_by_all_ranks();

// Returns whether all ranks of the communicator belong to this process's job, and none was spawned by MPI_Comm_spawn.
bool is_communicator_within_job(MPI_Comm comm);

}  // namespace nearfield::collectives

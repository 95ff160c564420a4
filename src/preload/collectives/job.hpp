// Which ranks are known to have this library. A communicator is connected by a collective of this library's own, which a
// rank that lacks it does not call: all would hang. LD_PRELOAD reaches the ranks on the launcher's own node, but those
// on other nodes only if the launcher passes it on and the file is there, too.
#pragma once

#include <mpi.h>

namespace nearfield::collectives {

// Returns whether all ranks of this process's job have the library: they are on one node, as the launcher's variables
// say, or the settings have all_nodes=1. The answer is the same on all ranks of the job that have the library.
bool is_loaded_by_all_ranks();

// Returns whether all ranks of a communicator are of this process's job, and none of one that was spawned.
bool is_within_job(MPI_Comm comm);

}  // namespace nearfield::collectives

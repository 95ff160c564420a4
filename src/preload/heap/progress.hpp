// Polls for peers' copy requests while the MPI waits, by progress callbacks of Open MPI and MPICH.
#pragma once

namespace nearfield::heap {

// Called after MPI_Init and at every message that this process copies: registers poll_copy_requests() as a progress
// callback of the MPI, if the MPI supports callbacks and this one is not registered.
void register_progress_callback();

}  // namespace nearfield::heap

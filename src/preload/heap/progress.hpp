// Runs this library while the MPI waits, by progress callbacks of Open MPI and MPICH.
#pragma once

namespace nearfield::heap {

// Called after MPI_Init and at every message that this process copies: registers poll_copy_requests() with the MPI, if
// it supports that and the callback is not registered.
void register_progress_callback();

}  // namespace nearfield::heap

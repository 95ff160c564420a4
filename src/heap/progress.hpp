// Gives this library a turn while the MPI waits, by callbacks that Open MPI and MPICH call when they make progress.
#pragma once

namespace nearfield::heap {

// Called after MPI_Init and at every message that this process copies: registers look_for_orders() with the MPI if it
// offers that and has not got it now.
void watch_progress();

}  // namespace nearfield::heap

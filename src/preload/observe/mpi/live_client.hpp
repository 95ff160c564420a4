// Client of a live simulation: for every nondeterministic MPI outcome (the message of a receive with a wildcard, the
// result of a probe or test, the request that Waitany returns) the rank queries the simulator, blocks until the reply
// arrives, and makes the MPI library produce that outcome.
//
// Deadlock freedom:
// - The stream is flushed before the rank blocks, so the simulator never waits for a rank that waits for a reply.
// - Sends are buffered (deferred_requests.hpp): the simulated MPI may proceed where the real one would wait for the
//   receiver.
// - A receive that may match different messages is posted in the MPI library when the simulation has determined its
//   message. Later receives are deferred as well, because they must not overtake it. The simulation sends the match as
//   soon as it is known, whatever the rank does then; while receives are deferred, no rank blocks in the MPI library.
// - A rank that waits for a reply polls the MPI library to drive its progress.
#pragma once

#include <mpi.h>

#include <functional>
#include <vector>

#include "preload/observe/mpi/call.hpp"

namespace nearfield::observe {

using Words = std::vector<std::int64_t>;

// Sends the query. Returns the reply (stream/live_reply.hpp) without its first two words.
Words query(const stream::Ask& question);
// Blocks until `done`, which polls the MPI library, returns true. The stream is flushed first.
void progress_until(const std::function<bool()>& done);
// Blocks until the request has completed, as MPI_Wait does.
int wait_request(MPI_Request* request, MPI_Status* status);
// Synchronises all ranks of a communicator, also in the simulation, before a synchronising call that is not an event.
void live_barrier(MPI_Comm comm);

}  // namespace nearfield::observe

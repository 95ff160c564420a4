// A rank whose simulation goes on meanwhile, and decides what MPI leaves to time: which message a receive from any source
// gets, what a probe or a test finds, which request Waitany returns. The rank asks, sleeps until the answer is there, and
// lets the MPI library do just that.
//
// Nobody waits for ever:
// - What a rank does, and for what it waits, is sent before it is stopped: the simulation never waits for a rank that
//   waits for an answer, or for one that does.
// - Sends are done from copies (held.hpp). The simulated MPI may go on where the real one would wait for the receiver.
// - A receive whose message time decides is begun in the MPI library when the simulation tells which one it gets, and
//   those that come after it as well, since they must not overtake it. The simulation tells that as soon as it is so,
//   whatever the rank does then; so while there are such receives, no rank is stopped in the MPI library itself.
// - While a rank waits for an answer it lets the MPI library make progress now and then.
#pragma once

#include <mpi.h>

#include <functional>
#include <vector>

#include "observe/mpi/call.hpp"

namespace nearfield::observe {

using Words = std::vector<std::int64_t>;

// Sends the question. Returns the answer (stream/answer.hpp), without its first two words.
Words ask(const stream::Ask& question);
// Returns when `done` returns true, which asks the MPI library. What was recorded is sent before the rank is stopped.
void go_on_when(const std::function<bool()>& done);
// Returns when the request is over, as MPI_Wait does.
int wait_for(MPI_Request* request, MPI_Status* status);
// All ranks of a communicator wait for one another: before what is no event but does that, too.
void line_up(MPI_Comm comm);

}  // namespace nearfield::observe

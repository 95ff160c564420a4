// Remote control of two jobs that stay on the same cores and are measured alternately: each sleeps until it gets a
// command. So two settings of one MPI, which are read once in MPI_Init, are compared milliseconds apart instead of
// launches apart.
#pragma once

#include "probe/context.hpp"
#include "probe/emit.hpp"
#include "probe/scenario.hpp"

namespace nearfield::probe {

/// Collective over ctx.timed, which must be all ranks of the launch. Every rank reads commands, one per line, from a
/// FIFO of its own, `<plan.command_fifo>.<rank>`, and sleeps in read() while there is none; the controller writes each
/// command to all of them. Rank 0 replies with a line of output.
/// / check CASE: {"type": "checked", "case", "problem"}, the error in the received data; empty if there is none.
/// / visit CASE COUNT: {"type": "visit", "case", "flag_ns", "samples"}, in ns, after a discarded repetition. `flag_ns`
/// is the core-to-core latency between ranks 0 and 1 before and after (0 without shared memory).
/// / end, or no writer of the FIFO is left: returns.
/// / The cases are those of the plan's first scenario, announced in the first line: {"type": "cases", "cases": [...]}.
void serve_commands(Context& ctx, const Spec& spec, Emitter& emit);

}  // namespace nearfield::probe

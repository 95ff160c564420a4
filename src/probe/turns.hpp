// Two jobs on the same cores, measured in turn: each sleeps until its turn, so that two settings of one MPI, which
// are read once in MPI_Init, are compared milliseconds apart instead of launches apart.
#pragma once

#include "probe/context.hpp"
#include "probe/emit.hpp"
#include "probe/scenario.hpp"

namespace nearfield::probe {

/// Collective over ctx.timed, which must be all ranks of the launch. Every rank reads commands, a line each, from a
/// FIFO of its own, `<plan.turns>.<rank>`, asleep in read() while there is none; the one who gives turns writes each
/// command to all of them. Rank 0 answers with a line of output.
///
/// check CASE: {"type": "checked", "case", "problem"}, what is wrong with the data that arrived; empty if nothing.
///
/// visit CASE COUNT: {"type": "visit", "case", "flag_ns", "samples"}, in ns, after a repetition that does not count.
/// `flag_ns` is what a flag takes between ranks 0 and 1 before and after (0 without shared memory).
///
/// end, or the FIFO's writer is gone: returns.
///
/// The cases are those of the plan's first scenario, announced in the first line: {"type": "cases", "cases": [...]}.
void take_turns(Context& ctx, const Spec& spec, Emitter& emit);

}  // namespace nearfield::probe

// Serves commands of a controller that measures two jobs alternately. Both jobs stay on the same cores, and each sleeps
// until it gets a command. So two values of a setting that an MPI reads only once, in MPI_Init, can be compared by
// measurements that are milliseconds apart, in spite of separate launches.
#pragma once

#include "probe/context.hpp"
#include "probe/emit.hpp"
#include "probe/scenario.hpp"

namespace nearfield::probe {

/// Serves commands until the controller sends "end". Collective over ctx.timed_comm, which must contain all ranks of
/// the launch. Every rank reads commands, one per line, from its own FIFO `<plan.command_fifo>.<rank>`, and sleeps in
/// read() while the FIFO is empty; the controller writes each command to all FIFOs. Rank 0 first writes {"type":
/// "cases", "cases": [...]}, the cases of the plan's first scenario, then one line per command:
/// - "check CASE": {"type": "checked", "case", "problem"}; `problem` is the error in the received data, or empty.
/// - "visit CASE COUNT": {"type": "visit", "case", "flag_ns", "samples"}; `samples` are times in ns after a discarded
/// repetition; `flag_ns` are the core-to-core latencies between ranks 0 and 1 before and after them (0 without shared
/// memory).
/// - "end", or a FIFO without a writer: returns.
void serve_commands(Context& ctx, const Spec& spec, Emitter& emit);

}  // namespace nearfield::probe

// Runs one scenario: checks that data arrives, then measures its cases interleaved until each is precise enough
// or the time is spent, then proves buffer states and counts events. Rank 0 decides, the others follow.
#pragma once

#include "probe/context.hpp"
#include "probe/emit.hpp"
#include "probe/scenario.hpp"

namespace nearfield::probe {

/// Collective over ctx.world. Emits one line per case and metric, or one saying why the scenario was skipped.
/// Throws Failure("sanity") on all ranks when a check fails on any.
void run_scenario(Context& ctx, const Spec& spec, double budget_s, Emitter& emit);

/// The user wants the launch to end (rank 0's view).
bool stop_asked(const Context& ctx);

}  // namespace nearfield::probe

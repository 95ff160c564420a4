// Runs one scenario: checks that data arrives, then measures its cases interleaved until each is precise enough or the
// time is used up, then verifies buffer states and counts events. Rank 0 coordinates, the others execute its commands.
//
// There are two durations. The budget is the scenario's planned time: beyond it a case is visited only until it has the
// few repetitions that an interval requires. The limit is its maximum time: beyond it nothing is started, and cases
// that were not reached are reported as missing.
#pragma once

#include "probe/context.hpp"
#include "probe/emit.hpp"
#include "probe/scenario.hpp"

namespace nearfield::probe {

/// Emits one line per case and metric, or one with the reason why the scenario was skipped. Collective over ctx.world.
/// `limit_s` matters on rank 0 only; with 0 or less no case is reached. Throws Failure("sanity") on all ranks when a
/// check fails on any.
void run_scenario(Context& ctx, const Spec& spec, double budget_s, double limit_s, Emitter& emit);

/// Returns whether the user wants the launch to end, as seen by rank 0.
bool stop_requested(const Context& ctx);

}  // namespace nearfield::probe

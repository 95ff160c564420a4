// Runs one scenario: checks that data arrives, then measures its cases interleaved until each is precise enough
// or the time is spent, then proves buffer states and counts events. Rank 0 decides, the others follow.
//
// Two times count. The budget is what the scenario should take: beyond it a case is visited only until it has the few
// repetitions that an interval needs. The limit is what it may take: beyond it nothing is begun, and cases that were
// not reached are reported as missing.
#pragma once

#include "probe/context.hpp"
#include "probe/emit.hpp"
#include "probe/scenario.hpp"

namespace nearfield::probe {

/// Emits one line per case and metric, or one saying why the scenario was skipped. Collective over ctx.world.
/// `limit_s` counts on rank 0 only; 0 or less reaches no case.
/// Throws Failure("sanity") on all ranks when a check fails on any.
void run_scenario(Context& ctx, const Spec& spec, double budget_s, double limit_s, Emitter& emit);

/// Returns whether the user wants the launch to end, as rank 0 sees it.
bool stop_asked(const Context& ctx);

}  // namespace nearfield::probe

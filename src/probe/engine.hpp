// Runs one scenario: checks the received data of each case, then visits the cases in random order until each median is
// precise enough or the time is used up, then verifies cache states of buffers and counts events. A visit is a short
// series of repetitions of one case. Rank 0 coordinates; the other ranks execute its commands.
//
// A scenario has a budget and a time limit. After the budget is used up, a case is visited only until it has the
// minimum number of repetitions for a confidence interval. After the time limit, no task is started, and cases that
// were not measured are reported as missing.
#pragma once

#include "probe/context.hpp"
#include "probe/emit.hpp"
#include "probe/scenario.hpp"

namespace nearfield::probe {

/// Runs a scenario and emits one line per case and metric, or one line with the reason why the scenario was skipped.
/// Collective over ctx.world. `limit_s` is used on rank 0 only; if it is 0 or less, no case is measured. If a check
/// fails on any rank, throws Failure("sanity") on all ranks.
void run_scenario(Context& ctx, const Spec& spec, double budget_s, double limit_s, Emitter& emit);

/// Returns whether the user has requested the end of the launch: plan.stop_file exists.
bool is_stop_requested(const Context& ctx);

}  // namespace nearfield::probe

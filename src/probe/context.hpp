// The context of every scenario: ranks, facts about the machine, the synchronised start, the MPI's known protocol
// switches.
#pragma once

#include <mpi.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "probe/cache_state.hpp"
#include "probe/cpu_interference.hpp"
#include "probe/plan.hpp"
#include "probe/synchronized_start.hpp"
#include "scenario/size_ladder.hpp"

namespace nearfield::probe {

/// A message size at which this MPI changes its protocol, found by its behaviour (protocol.hpp).
struct Switch {
  /// "eager-limit": beyond it Send waits for the receive; "unattended-limit": beyond it Send waits until the receiver
  /// is inside MPI; "single-copy": beyond it the kernel copies (or no longer does).
  const char* kind;
  std::int64_t size_bytes;  ///< the largest size before the change
};

struct Context {
  Context(const Plan& plan_, MPI_Comm world_, MPI_Comm timed_) : plan(plan_), world(world_), timed(timed_) {}

  const Plan& plan;
  MPI_Comm world;  ///< every rank of the launch; for the engine's own messages
  MPI_Comm timed;  ///< the timed ranks; MPI_COMM_NULL on background ranks
  int world_rank = 0, world_size = 1;
  int rank = 0, size = 1;  ///< in `timed`
  double ticks_per_ns = 1.0;
  double resolution_ticks = 0.0;  ///< the clock's step
  SynchronizedStart* start = nullptr;
  Latencies latencies;
  CpuInterference interference;  ///< of this rank's core
  std::vector<Switch> switches;

  bool sender() const { return rank == 0; }
  int peer() const { return 1 - rank; }
  /// Returns the plan's sizes and those of `switches`, as the ladders of scenario/size_ladder.hpp take them.
  SizeChoice size_choice() const { return {plan.tier, plan.sizes, plan.llc_bytes(), max_tier_bytes(plan.tier)}; }
  std::vector<std::int64_t> switch_sizes() const {
    std::vector<std::int64_t> sizes;
    for (const auto& change : switches) sizes.push_back(change.size_bytes);
    return sizes;
  }
  std::size_t line_bytes() const { return static_cast<std::size_t>(plan.line_bytes); }
};

/// A body's value for a metric that is not measured on this rank.
inline double not_here() { return std::nan(""); }

}  // namespace nearfield::probe

// What every scenario needs: ranks and communicators, facts about the machine, the synchronised start, and the sizes at
// which this MPI switches protocols.
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

/// A message size at which this MPI switches its protocol, detected by the behaviour of MPI_Send (protocol.hpp).
struct ProtocolSwitch {
  /// "eager-limit": longer sends wait for the matching receive; "unattended-limit": longer sends wait until the
  /// receiver is inside an MPI call; "single-copy": longer messages are copied by the kernel, or no longer are.
  const char* kind;
  std::int64_t size_bytes;  ///< the largest size before the change
};

struct Context {
  Context(const Plan& plan_, MPI_Comm world_, MPI_Comm timed_) : plan(plan_), world(world_), timed(timed_) {}

  const Plan& plan;
  MPI_Comm world;  ///< all ranks of the launch; for commands of the engine
  MPI_Comm timed;  ///< the timed ranks; MPI_COMM_NULL on background ranks
  int world_rank = 0, world_size = 1;
  int rank = 0, size = 1;  ///< of this rank in `timed`
  double ticks_per_ns = 1.0;
  double resolution_ticks = 0.0;  ///< step by which the clock advances
  SynchronizedStart* start = nullptr;
  LineLatencies latencies;
  CpuInterference interference;  ///< detects interference on this rank's core
  std::vector<ProtocolSwitch> switches;

  bool is_sender() const { return rank == 0; }
  int peer_rank() const { return 1 - rank; }
  /// Returns the arguments for the size ladders of scenario/size_ladder.hpp: tier, sizes that the user named,
  /// last-level cache size, maximum size.
  SizeChoice size_choice() const { return {plan.tier, plan.sizes, plan.llc_bytes(), max_tier_bytes(plan.tier)}; }
  std::vector<std::int64_t> switch_sizes() const {
    std::vector<std::int64_t> sizes;
    for (const auto& change : switches) sizes.push_back(change.size_bytes);
    return sizes;
  }
  std::size_t line_bytes() const { return static_cast<std::size_t>(plan.line_bytes); }
};

/// Returns NaN, which run_timed() writes for a metric that this rank does not measure.
inline double not_measured_here() { return std::nan(""); }

}  // namespace nearfield::probe

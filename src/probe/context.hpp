// The context of a scenario: ranks and communicators, properties of the machine, the synchronised start, and the
// message sizes at which this MPI switches protocols.
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
  /// "eager-limit": longer sends wait for the matching receive. "unattended-limit": longer sends wait until the
  /// receiver is inside an MPI call. "single-copy": the kernel copies longer messages but not shorter ones, or the
  /// reverse.
  const char* switch_kind;
  std::int64_t size_bytes;  ///< the largest size before the change
};

struct Context {
  Context(const Plan& plan_, MPI_Comm world_, MPI_Comm timed_) : plan(plan_), world_comm(world_), timed_comm(timed_) {}

  const Plan& plan;
  MPI_Comm world_comm;  ///< all ranks of the launch; for commands of the engine
  MPI_Comm timed_comm;  ///< the timed ranks; MPI_COMM_NULL on background ranks
  int world_rank = 0, num_world_ranks = 1;
  int rank = 0, num_ranks = 1;  ///< this rank in timed_comm, and the size of timed_comm
  double ticks_per_ns = 1.0;
  double clock_resolution_ticks = 0.0;  ///< step by which the clock counter advances
  SynchronizedStart* synchronized_start = nullptr;
  LineLatencies line_latencies;
  CpuInterference interference;  ///< detects interference on this rank's core
  std::vector<ProtocolSwitch> protocol_switches;

  bool is_sender() const { return rank == 0; }
  int peer_rank() const { return 1 - rank; }
  /// Returns the arguments for the size ladders of scenario/size_ladder.hpp: tier, sizes requested by the user,
  /// last-level cache size and maximum message size.
  SizeChoice size_choice() const {
    return {plan.tier, plan.sizes, plan.llc_bytes(), max_message_bytes_of_tier(plan.tier)};
  }
  std::vector<std::int64_t> protocol_switch_sizes() const {
    std::vector<std::int64_t> sizes;
    for (const auto& change : protocol_switches) sizes.push_back(change.size_bytes);
    return sizes;
  }
  std::size_t cache_line_bytes() const { return static_cast<std::size_t>(plan.cache_line_bytes); }
};

/// Returns NaN, the value that run_timed() writes for a metric that this rank does not measure.
inline double not_measured_here() { return std::nan(""); }

}  // namespace nearfield::probe

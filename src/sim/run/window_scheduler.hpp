// Conservative parallel simulation of all nodes of a cluster. A window begins at the earliest event and lasts one
// network latency (the lookahead). Within a window, nodes cannot affect each other, so they are simulated
// independently, on one or more threads. After each window, the transfers that have departed enter the network in the
// order of time, and at equal times in the order of nodes. So results do not depend on the number of threads, nor on
// the number of shards, which all run the same windows (shards.hpp). docs/explanation/parallel-simulation.md has a
// picture.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/engine/thread_pool.hpp"
#include "sim/mpi/cluster_state.hpp"
#include "sim/mpi/nic_transfers.hpp"

namespace nearfield::sim {

struct NodeState;

class WindowScheduler {
 public:
  // A window that takes less than `min_parallel_window_us` on one thread is not distributed over several threads.
  WindowScheduler(ClusterState& cluster, int threads, double min_parallel_window_us);
  // Runs until no event is left. Throws the failure with the earliest simulated time.
  void run();

 private:
  struct Departure {
    Ps departure_time;
    std::size_t order;  // in the order of nodes
    const DepartedTransfer* transfer;
  };

  // The ranks that have arrived at the barrier (Rank::barrier).
  struct BarrierState {
    std::size_t num_ranks = 0;
    ConfigClock latest_clock;  // latest clock of a rank, if all ranks of the shard have arrived
  };

  BarrierState local_barrier_state() const;
  void collect_departures();
  void receive_remote_departures();
  void exchange_departures();
  void release_barrier();
  bool open_window();
  bool wake_idle_rank();
  void run_window();
  void rethrow_first_failure() const;
  void run_progress_callback();

  ClusterState& cluster_;
  ThreadPool pool_;
  double min_parallel_window_us_, last_window_cpu_us_ = 0;  // CPU time of the last window
  std::uint64_t num_events_at_last_callback_ = 0;
  Ps window_end_ = 0;
  Ps next_remote_event_ = never;          // time of the earliest event on the other shards' nodes
  std::vector<NodeState*> active_nodes_;  // nodes with events in this window
  std::vector<Departure> departures_;
  std::vector<DepartedTransfer> remote_departures_;  // from other shards' nodes
  BarrierState barrier_;                             // of all shards
};

}  // namespace nearfield::sim

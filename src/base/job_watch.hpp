// Ends a user's program if a node of its job has died and a rank waits for other nodes, because MPI would wait for
// minutes or forever. One process of each node watches the other nodes (base/node_watch.hpp); all ranks mark when they
// wait. The program is never ended while no rank waits. On a single node, nothing is watched: no socket, no thread.
#pragma once

#include <atomic>
#include <functional>

#include "base/wait_mark.hpp"

namespace nearfield {

/// The ranks of a communicator, and collectives of it.
struct JobRanks {
  int rank = 0, num_ranks = 0;
  std::function<void(const void* own, void* all, std::size_t bytes)> allgather;
  std::function<void(void* data, std::size_t bytes)> bcast;  ///< from rank 0
};

/// Watches the nodes of these ranks until stop_job_watch(): rank 0 is the hub, and the lowest rank of each other node
/// is a member. Does nothing if all ranks are on one node, if a rank watches or is watched already, or if
/// NEARFIELD_NODE_PATIENCE_S on rank 0 is "off" or 0. `activity` names the call in messages such as "rank 3 has waited
/// in a halo exchange". Collective.
void start_job_watch(const JobRanks& ranks, const char* activity);

/// Ends the watch. Must be called before MPI_Finalize, when no thread waits any more.
void stop_job_watch();

/// The wait mark of this process while the nodes are watched; otherwise null.
extern std::atomic<WaitMark*> watched_wait_mark;

/// Marks the calling thread as waiting for other nodes during the lifetime of this object. Costs two atomic additions
/// if the nodes are watched, and nothing otherwise.
class NodeWait {
 public:
  explicit NodeWait(bool waits_for_nodes)
      : wait_mark_(waits_for_nodes ? watched_wait_mark.load(std::memory_order_relaxed) : nullptr) {
    if (wait_mark_) wait_mark_->enter();
  }
  ~NodeWait() {
    if (wait_mark_) wait_mark_->leave();
  }
  NodeWait(const NodeWait&) = delete;
  NodeWait& operator=(const NodeWait&) = delete;

 private:
  WaitMark* wait_mark_;
};

}  // namespace nearfield

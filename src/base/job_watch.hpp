// Ends a user's program if a node of its job has died and a rank waits for other nodes, because MPI would wait for minutes
// or forever. One process of each node watches (base/node_watch.hpp); all ranks mark when they wait. A program of which no
// rank waits is never ended, and one on a single node has neither a socket nor a thread for it.
#pragma once

#include <atomic>
#include <functional>

#include "base/wait_mark.hpp"

namespace nearfield {

/// The ranks of a communicator, and collectives of it.
struct JobRanks {
  int rank = 0, ranks = 0;
  std::function<void(const void* own, void* all, std::size_t bytes)> allgather;
  std::function<void(void* data, std::size_t bytes)> bcast;  ///< from rank 0
};

/// Begins to watch the nodes of these ranks, until stop_job_watch(): rank 0 is the hub, and the lowest rank of each other
/// node is a member. Does nothing if all ranks are on one node, if a rank watches or is watched already, or if
/// NEARFIELD_NODE_PATIENCE_S on rank 0 is "off" or 0. `activity` completes "rank 3 waits in". Collective.
void start_job_watch(const JobRanks& ranks, const char* activity);

/// Ends the watch. Called before MPI is finalised, when no thread waits any more.
void stop_job_watch();

/// The mark of this process while the nodes are watched, else null.
extern std::atomic<WaitMark*> job_wait_mark;

/// Marks the calling thread as waiting for other nodes while this object lives. Costs two additions if the nodes are
/// watched, and nothing otherwise.
class NodeWait {
 public:
  explicit NodeWait(bool waits_for_nodes)
      : mark_(waits_for_nodes ? job_wait_mark.load(std::memory_order_relaxed) : nullptr) {
    if (mark_) mark_->enter();
  }
  ~NodeWait() {
    if (mark_) mark_->leave();
  }
  NodeWait(const NodeWait&) = delete;
  NodeWait& operator=(const NodeWait&) = delete;

 private:
  WaitMark* mark_;
};

}  // namespace nearfield

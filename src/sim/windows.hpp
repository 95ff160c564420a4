// Runs what happens on all nodes of a cluster, by windows of time. No message takes less than the network's latency from
// its node to another one. So what happens on a node within that time after the earliest event of all depends on nothing
// that other nodes do meanwhile, and nodes go on one by one, or on several threads at once. After each window, what has
// left its node enters the network in the order of time, and at the same time in that of the nodes. So the number of
// threads is seen in no result, nor is that of the shards, which go through the same windows (shards.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/engine/crew.hpp"
#include "sim/shipping.hpp"
#include "sim/world.hpp"

namespace nearfield::sim {

struct Site;

class Windows {
 public:
  // A window that takes less than `worth_sharing_us` on one thread is not shared among several.
  Windows(World& world, int threads, double worth_sharing_us);
  // Runs until nothing is left to happen. Throws what failed first.
  void run();

 private:
  struct Leaving {
    Ps since;
    std::size_t number;  // of those that leave, node by node
    const Gone* gone;
  };

  // Ranks that wait until all have lined up.
  struct LinedUp {
    std::size_t ranks = 0;
    Clock latest;  // of all of a shard's
  };

  LinedUp lined_up_here() const;
  void leave_from_here();
  void hear_of_others();
  void exchange();
  void let_go_on();
  bool open();
  bool release();
  void run_window();
  void check() const;
  void ask_caller();

  World& world_;
  Crew crew_;
  double worth_sharing_us_, last_us_ = 0;  // of work, in the last window
  std::uint64_t events_at_call_ = 0;
  Ps end_ = 0;
  Ps next_elsewhere_ = never;  // when the next event of the other shards' nodes is
  std::vector<Site*> awake_;   // those on which something happens in this window
  std::vector<Leaving> leaving_;
  std::vector<Gone> of_others_;  // that has left other shards' nodes
  LinedUp lined_up_;             // on all shards
};

}  // namespace nearfield::sim

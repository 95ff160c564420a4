// What all ranks of a run share, which does not change while nodes go on: the machine and who is where. What ranks of one
// node share is its Site's. cluster.hpp builds both.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "machine/machine.hpp"
#include "sim/network/network.hpp"

namespace nearfield::sim {

class Endpoint;
struct Site;

struct World {
  Machine machine;
  int variants = 1;
  bool count_marks = false;
  bool count_sides = false;
  std::unique_ptr<Network> network;  // none with one node
  std::vector<std::unique_ptr<Site>> sites;
  std::vector<std::unique_ptr<Endpoint>> ranks;
  std::function<void()> call_now_and_then;  // ClusterOptions::now_and_then, which may be empty
  std::thread::id caller = {};              // who began the run

  // Does now and then what the caller wishes, in its own thread only: other threads return at once.
  void now_and_then() const {
    if (call_now_and_then && std::this_thread::get_id() == caller) call_now_and_then();
  }
};

}  // namespace nearfield::sim

// What all ranks of a run share, which does not change while nodes go on: the machine and who is where. What ranks of one
// node share is its Site's. cluster.hpp builds both. Of nodes that other shards simulate, sites and ranks are here as well,
// so that messages can name them; nothing ever happens there.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "machine/machine.hpp"
#include "sim/network/network.hpp"
#include "sim/shards.hpp"

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
  Shards* shards = nullptr;                 // there always is one
  NodeRange here;                           // the nodes that this shard simulates
  std::function<void()> call_now_and_then;  // ClusterOptions::now_and_then, which may be empty
  std::thread::id caller = {};              // who began the run

  std::span<const std::unique_ptr<Endpoint>> ranks_here() const {
    const std::size_t of_node = ranks.size() / sites.size();
    return std::span(ranks).subspan(static_cast<std::size_t>(here.begin) * of_node,
                                    static_cast<std::size_t>(here.size()) * of_node);
  }
  // Does now and then what the caller wishes, in its own thread only: other threads return at once.
  void now_and_then() const {
    if (call_now_and_then && std::this_thread::get_id() == caller) call_now_and_then();
  }
};

}  // namespace nearfield::sim

// Measures a collective on a simulated cluster as a micro-benchmark does: the application writes what it gives once,
// then calls the operation several times, all ranks beginning each together. Caches stay between calls as they are.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/cluster.hpp"

namespace nearfield::sim {

struct CollectiveRequest {
  std::string collective;
  std::uint64_t bytes = 0;  // CollectiveSpec::bytes_are
  int root = 0;
  int repetitions = 7;  // S4, section 4.4: the average of seven runs
};

struct CollectiveRepetition {
  Clock time;  // from when all ranks are ready until the last one is done
  std::vector<VariantOutcome> variants;
  std::uint64_t events = 0, messages = 0, network_bytes = 0;
};

// std::invalid_argument for what cannot be. `between` is called before every repetition and may throw to end it.
std::vector<CollectiveRepetition> measure_collective(
    Cluster& cluster, const CollectiveRequest& request, const std::function<void()>& between = [] {});

}  // namespace nearfield::sim

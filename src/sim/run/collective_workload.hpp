// A collective as a micro-benchmark measures it: every rank writes its contribution once, then all ranks call the
// collective several times.
#pragma once

#include <string>

#include "sim/run/workload.hpp"

namespace nearfield::sim {

struct CollectiveRequest {
  std::string collective;
  std::uint64_t bytes = 0;  // CollectiveSpec::bytes_meaning
  int root = 0;
  int repetitions = 7;  // paper S4 (papers/S4/README.md), section 4.4: the average of seven runs
};

// Returns the measurements of all repetitions. Throws std::invalid_argument for an impossible request.
std::vector<Repetition> measure_collective(Cluster& cluster, const CollectiveRequest& request);

}  // namespace nearfield::sim

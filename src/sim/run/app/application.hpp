// Applications as programs over ranks: the accesses, messages and collectives of a real code at a real size, without
// the values that the code computes. Each application exports one ApplicationSpec. All data that determines a rank's
// behavior (a matrix, the number of iterations of a solver) is computed on the host beforehand, so that the behavior
// does not depend on simulated time.
#pragma once

#include <memory>
#include <vector>

#include "sim/run/workload.hpp"

namespace nearfield::sim {

struct ApplicationSpec {
  const char* name;
  const char* summary;
  const char* bytes_meaning;
  std::vector<std::uint64_t> default_bytes;
  // Throws std::invalid_argument if the problem cannot be partitioned over `ranks` ranks.
  std::unique_ptr<Workload> (*make)(int ranks, std::uint64_t bytes);
};

const std::vector<const ApplicationSpec*>& all_applications();

}  // namespace nearfield::sim

// Finds the message costs by which a grid chooses decomposition and protocols; the same on all ranks.
#pragma once

#include <string>

#include "halo/node.hpp"
#include "plan/costs_file.hpp"

namespace nearfield::halo {

/// Returns the costs from the file `given` of rank 0; if it is empty, from the file that the environment variable
/// NEARFIELD_HALO_COSTS names on rank 0; without a file, the defaults. Collective. If the file cannot be read, throws
/// Error(argument) on all ranks.
planning::CostsWithOrigin find_costs(const std::string& given, const Node& node);

}  // namespace nearfield::halo

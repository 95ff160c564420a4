// Finds the message costs of a grid, given or assumed, the same on all ranks.
#pragma once

#include <string>

#include "halo/node.hpp"
#include "plan/costs_file.hpp"

namespace nearfield::halo {

/// Returns the costs in the file that rank 0 was given, or that NEARFIELD_HALO_COSTS names there; without a file the
/// defaults. Collective; throws Error(argument) on all ranks if the file cannot be read.
planning::CostsWithOrigin known_costs(const std::string& given, const Node& node);

}  // namespace nearfield::halo

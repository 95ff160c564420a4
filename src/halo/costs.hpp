// Reads the message costs by which a grid chooses decomposition and protocols; they are the same on all ranks.
#pragma once

#include <string>

#include "halo/node.hpp"
#include "plan/costs_file.hpp"

namespace nearfield::halo {

/// Returns the costs in `requested_file`; if that is empty, the costs in the file that NEARFIELD_HALO_COSTS names; if
/// that is not set, the default costs. Rank 0 alone reads the variable and the file. Collective. If the file cannot be
/// read, throws Error(argument) on all ranks.
planning::CostsWithOrigin find_costs(const std::string& requested_file, const Node& node);

}  // namespace nearfield::halo

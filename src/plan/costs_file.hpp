// The file format of message costs, by which programs read the costs of a profile without Python. `nearfield halo
// --costs PROFILE` writes such a file, and a grid of the halo library reads it. Each line contains one number or curve,
// in any order; none may be missing. Lines that begin with # are comments. The writer puts `origin` last, so a
// truncated file is detected. An implausible number (a bandwidth of 10^6 GB/s, a factor below 1) is an error.
#pragma once

#include <string>

#include "plan/costs.hpp"

namespace nearfield::planning {

struct CostsWithOrigin {
  Costs costs;
  std::string origin;  ///< human-readable source of the costs
};

/// Returns the contents of a costs file, which parse_costs() reads. Throws std::invalid_argument if `in_place` of the
/// costs is missing.
std::string format_costs(const CostsWithOrigin& costs_with_origin);

/// Parses the contents of a costs file. Throws std::invalid_argument with the file's `name`, the line, the mistake and
/// the remedy.
CostsWithOrigin parse_costs(const std::string& text, const std::string& name);

}  // namespace nearfield::planning

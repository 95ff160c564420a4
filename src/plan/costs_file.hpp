// A file of costs, by which programs on any number of nodes read the costs of a profile without Python: `nearfield halo
// --costs PROFILE` writes it, and a grid reads it. It has one number or curve per line, in any order, none missing;
// lines that begin with # are comments. Its last line is `origin`, which shows that the file is complete. An
// implausible number (a bandwidth of 10^6 GB/s, a factor below 1) is an error.
#pragma once

#include <string>

#include "plan/costs.hpp"

namespace nearfield::planning {

struct KnownCosts {
  Costs costs;
  std::string origin;  ///< where they are from, in one phrase
};

/// Returns the text that `parse_costs` reads. Throws std::invalid_argument unless ranks of a node can read in place.
std::string costs_text(const KnownCosts& known);

/// Returns the costs. Throws std::invalid_argument with the file's `name`, the line, the mistake and the remedy.
KnownCosts parse_costs(const std::string& text, const std::string& name);

}  // namespace nearfield::planning

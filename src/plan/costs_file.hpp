// A file of costs, from which programs on any number of nodes learn the costs of a profile without Python:
// `nearfield halo --costs PROFILE` writes it, and a grid reads it. It has one number or curve a line, in any order,
// none missing; lines of # are for people. Its last line is `origin`, so that a file that was cut short lacks it. A
// number that no machine has (a bandwidth of 10^6 GB/s, a factor below 1) is an error.
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

/// Returns the costs. Throws std::invalid_argument with `name` of the file, the line, the mistake and the remedy.
KnownCosts parse_costs(const std::string& text, const std::string& name);

}  // namespace nearfield::planning

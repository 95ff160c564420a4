// A file of costs, by which a program on any number of nodes knows what a profile says without Python:
// `nearfield halo --costs PROFILE` writes it, a grid reads it. One number or curve a line, all of them, in any order;
// lines of # are for people. The last line it writes is `origin`, so that a file that was cut short lacks it. A number
// that no machine has (a bandwidth of 10^6 GB/s, a factor below 1) is an error.
#pragma once

#include <string>

#include "plan/costs.hpp"

namespace nearfield::planning {

struct KnownCosts {
  Costs costs;
  std::string origin;  ///< where they are from, in one phrase
};

/// Exactly what `parse_costs` reads. std::invalid_argument if ranks of a node are not known to read in place.
std::string costs_text(const KnownCosts& known);

/// `name`: of the file. std::invalid_argument that names it, the line, what is wrong there and what to do.
KnownCosts parse_costs(const std::string& text, const std::string& name);

}  // namespace nearfield::planning

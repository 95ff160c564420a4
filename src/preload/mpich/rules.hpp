// Parses the user's rules in two environment variables.
//   NEARFIELD_PAIR_RULES    DISTANCE:single_copy_from=BYTES;...   BYTES a number of bytes or `never`
//   NEARFIELD_PAIR_CLASSES  A-B:DISTANCE;...                      world ranks; for tests
#pragma once

#include <array>
#include <map>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "preload/mpich/distance.hpp"

namespace nearfield::tune {

// The message describes the mistake, in one line without a line end.
struct Malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The smallest message in bytes that is copied directly from process to process; this value, MPICH's default, if there
// is no rule.
inline constexpr int mpich_default = -1;

struct Rules {
  std::array<int, distance_names.size()> single_copy_from;
  int of(Distance distance) const { return single_copy_from[static_cast<std::size_t>(distance)]; }
};

// MPICH keeps thresholds as int: `never` and larger numbers become the maximum, which messages beyond 2 GiB exceed.
// Throws Malformed.
Rules parse_rules(std::string_view text);

// Returns pairs of world ranks, smaller first. Throws Malformed.
std::map<std::pair<int, int>, Distance> parse_classes(std::string_view text);

}  // namespace nearfield::tune

// Parses the user's rules, the values of two environment variables:
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

// Thrown for invalid text. The message describes the mistake, in one line without a line end.
struct MalformedRules : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The value of a threshold without a rule: MPICH's own threshold applies.
inline constexpr int mpich_default = -1;

// Thresholds by distance: the smallest message in bytes that is copied directly from process to process.
struct DistanceRules {
  std::array<int, distance_names.size()> single_copy_min_bytes;
  int threshold_of(Distance distance) const { return single_copy_min_bytes[static_cast<std::size_t>(distance)]; }
};

// Parses NEARFIELD_PAIR_RULES. MPICH stores thresholds as int: `never` and larger numbers become INT_MAX, so longer
// messages, of more than 2 GiB, are copied directly nevertheless. Throws MalformedRules.
DistanceRules parse_rules(std::string_view text);

// Parses NEARFIELD_PAIR_CLASSES. Returns the distances of pairs of world ranks, with the smaller rank first. Throws
// MalformedRules.
std::map<std::pair<int, int>, Distance> parse_distance_by_rank_pair(std::string_view text);

}  // namespace nearfield::tune

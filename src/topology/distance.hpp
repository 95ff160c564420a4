// The distance of two PUs: the nearest class of shared hardware that covers both. Pure arithmetic on a Topology, so it
// is the same for a live machine, a file and a synthetic one. Leaves out latencies, which are measured.
//
// Two rules beyond "the first object that covers both":
// - A PU's NUMA node is the smallest that covers it, so HBM or CXL memory near every core makes no pair nearer.
// - same-numa holds only inside a package: with NUMA switched off in the firmware one node spans the packages, and a
//   pair across the link between them is same-node.
#pragma once

#include <array>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/distances.h"
#include "topology/topology.hpp"

namespace nearfield::topology {

enum class Distance { NEARFIELD_EACH_DISTANCE(NEARFIELD_DISTANCE_ENUMERATOR) };

// Nearest first; the index is the enumerator's value.
inline constexpr std::array<std::string_view, 6> distance_names{NEARFIELD_EACH_DISTANCE(NEARFIELD_DISTANCE_NAME)};

using Pair = std::pair<int, int>;

class DistanceTable {
 public:
  explicit DistanceTable(const Topology& topology);

  // Throws Error when a PU is not in the topology or both are the same.
  Distance between(int pu_a, int pu_b) const;

  // Returns the classes of which there is at least one pair, nearest first.
  std::vector<Distance> existing() const;

  // Returns pairs (a, b) with a < b, ascending. Each core is represented by its PU with the lowest number, so that SMT
  // does not multiply pairs; only same-core lists all pairs of PUs within each core.
  std::vector<Pair> pairs(Distance distance) const;

  // Returns the first of pairs(d) for every existing d. So all classes that PU 0's core belongs to have the same
  // sender, and an SMT sibling appears in same-core only.
  std::map<Distance, Pair> representatives() const;

 private:
  static constexpr int no_domain = -1;
  // The objects that cover a PU, one for each class from same_core to same_package.
  using Domains = std::array<int, 5>;

  void assign(Distance level, const std::vector<PuSet>& objects);
  std::vector<Pair> pairs_within_cores() const;

  std::unordered_map<int, Domains> domains_;
  std::vector<PuSet> cores_;
  std::vector<int> first_pus_;  // of every core, ascending
};

}  // namespace nearfield::topology

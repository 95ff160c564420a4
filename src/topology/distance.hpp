// Classifies the distance between two PUs by the smallest hardware object (core, cache, NUMA node, package) that both
// share. Uses only the data of a Topology, so it works in the same way for this machine, a file and a synthetic
// topology. Does not consider latencies, which core_latency.hpp measures.
//
// Two rules apply in addition:
// - The NUMA node of a PU is the smallest one that covers the PU, so HBM or CXL memory near every core makes no pair
// nearer.
// - same-numa applies only inside a package: if NUMA is disabled in the firmware, one NUMA node spans all packages, and
// a pair of PUs in different packages is same-node.
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

// Names of the distances, nearest first; indexed by the enumerator.
inline constexpr std::array<std::string_view, 6> distance_names{NEARFIELD_EACH_DISTANCE(NEARFIELD_DISTANCE_NAME)};

using PuPair = std::pair<int, int>;

class DistanceTable {
 public:
  explicit DistanceTable(const Topology& topology);

  // Returns the distance between two PUs. Throws TopologyError if a PU is not in the topology or both are the same.
  Distance distance_between(int pu_a, int pu_b) const;

  // Returns the distances that at least one pair of PUs has, nearest first.
  std::vector<Distance> existing_distances() const;

  // Returns all pairs (a, b) of PUs at this distance with a < b, ascending. Each core is represented by its
  // lowest-numbered PU, so that SMT does not multiply pairs; for same-core, all pairs of PUs within each core are
  // returned.
  std::vector<PuPair> pairs_at_distance(Distance distance) const;

  // Returns the first pair of pairs_at_distance(d) for every existing distance d. So all distances that occur for the
  // core of PU 0 have the same first PU, and SMT siblings appear in same-core only.
  std::map<Distance, PuPair> representative_pairs() const;

 private:
  static constexpr int no_object = -1;
  // Index of the object that covers a PU, for each distance from same_core to same_package.
  using CoveringObjects = std::array<int, 5>;

  void assign_covering_objects(Distance level, const std::vector<PuSet>& objects);
  std::vector<PuPair> pairs_within_cores() const;

  std::unordered_map<int, CoveringObjects> covering_objects_;
  std::vector<PuSet> cores_;
  std::vector<int> first_pus_;  // lowest-numbered PU of every core, ascending
};

}  // namespace nearfield::topology

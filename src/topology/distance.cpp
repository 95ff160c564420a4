#include "topology/distance.hpp"

#include <algorithm>
#include <string>

namespace nearfield::topology {
namespace {

std::vector<PuSet> caches_of_level(const Topology& topology, int level) {
  std::vector<PuSet> sets;
  for (const Cache& cache : topology.caches)
    if (cache.level == level && cache.kind != "instruction") sets.push_back(cache.pus);
  return sets;
}

// Splits NUMA nodes that span packages: PUs in different packages do not count as same-numa.
std::vector<PuSet> split_by_package(const std::vector<PuSet>& nodes, const std::vector<PuSet>& packages) {
  if (packages.empty()) return nodes;
  std::vector<PuSet> parts;
  for (const PuSet& node : nodes) {
    for (const PuSet& package : packages) {
      PuSet part;
      std::set_intersection(node.begin(), node.end(), package.begin(), package.end(), std::back_inserter(part));
      if (!part.empty()) parts.push_back(std::move(part));
    }
  }
  return parts;
}

}  // namespace

DistanceTable::DistanceTable(const Topology& topology) : cores_(topology.cores) {
  CoveringObjects no_objects;
  no_objects.fill(no_object);
  for (int pu : topology.pus) covering_objects_.emplace(pu, no_objects);
  assign_covering_objects(Distance::same_core, topology.cores);
  assign_covering_objects(Distance::shared_l2, caches_of_level(topology, 2));
  assign_covering_objects(Distance::shared_l3, caches_of_level(topology, 3));
  assign_covering_objects(Distance::same_numa, split_by_package(topology.numa_nodes, topology.packages));
  assign_covering_objects(Distance::same_package, topology.packages);
  std::sort(cores_.begin(), cores_.end());
  for (const PuSet& core : cores_) first_pus_.push_back(core.front());
}

// Assigns each PU the smallest object of this level that covers it: larger objects are assigned first and overwritten.
// Objects of equal size (HBM and DDR nodes) cover the same PUs, so their order does not matter.
void DistanceTable::assign_covering_objects(Distance level, const std::vector<PuSet>& objects) {
  std::vector<PuSet> largest_first = objects;
  std::stable_sort(largest_first.begin(), largest_first.end(),
                   [](const PuSet& a, const PuSet& b) { return a.size() > b.size(); });
  for (std::size_t i = 0; i < largest_first.size(); ++i)
    for (int pu : largest_first[i]) covering_objects_.at(pu)[static_cast<std::size_t>(level)] = static_cast<int>(i);
}

Distance DistanceTable::distance_between(int pu_a, int pu_b) const {
  const auto a = covering_objects_.find(pu_a);
  const auto b = covering_objects_.find(pu_b);
  if (a == covering_objects_.end() || b == covering_objects_.end())
    throw TopologyError("PU " + std::to_string(a == covering_objects_.end() ? pu_a : pu_b) +
                        " is not one that may be used here");
  if (pu_a == pu_b) throw TopologyError("PU " + std::to_string(pu_a) + " has no distance to itself");
  for (std::size_t level = 0; level < a->second.size(); ++level)
    if (a->second[level] != no_object && a->second[level] == b->second[level]) return static_cast<Distance>(level);
  return Distance::same_node;
}

std::map<Distance, PuPair> DistanceTable::representative_pairs() const {
  std::map<Distance, PuPair> pair_by_distance;
  for (std::size_t i = 0; i < first_pus_.size(); ++i)
    for (std::size_t j = i + 1; j < first_pus_.size(); ++j)
      pair_by_distance.try_emplace(distance_between(first_pus_[i], first_pus_[j]), first_pus_[i], first_pus_[j]);
  if (const auto siblings = pairs_within_cores(); !siblings.empty())
    pair_by_distance.emplace(Distance::same_core, siblings.front());
  return pair_by_distance;
}

std::vector<Distance> DistanceTable::existing_distances() const {
  std::vector<Distance> classes;
  for (const auto& [distance, pair] : representative_pairs()) classes.push_back(distance);
  return classes;
}

std::vector<PuPair> DistanceTable::pairs_at_distance(Distance distance) const {
  if (distance == Distance::same_core) return pairs_within_cores();
  std::vector<PuPair> pairs;
  for (std::size_t i = 0; i < first_pus_.size(); ++i)
    for (std::size_t j = i + 1; j < first_pus_.size(); ++j)
      if (distance_between(first_pus_[i], first_pus_[j]) == distance) pairs.emplace_back(first_pus_[i], first_pus_[j]);
  return pairs;
}

std::vector<PuPair> DistanceTable::pairs_within_cores() const {
  std::vector<PuPair> pairs;
  for (const PuSet& core : cores_)
    for (std::size_t i = 0; i < core.size(); ++i)
      for (std::size_t j = i + 1; j < core.size(); ++j) pairs.emplace_back(core[i], core[j]);
  return pairs;
}

}  // namespace nearfield::topology

// The type of a compute node: processor, caches, and the classes of distance between its cores, on which tuning rules
// depend.
//
// Reads the beginning of /proc/cpuinfo and about ten files of sysfs, where hwloc reads hundreds. Examines only CPU 0
// and the CPUs that share caches, NUMA node or package with it, and assumes that all cores are alike. Uses no C++
// library, since the shared heap is not linked to one.
#pragma once

#include <cstddef>

namespace nearfield {

struct NodeType {
  static constexpr int max_caches = 8;
  char processor[128] = "";      // the model name with single spaces; empty if the kernel reports none
  long cache_bytes[max_caches];  // of CPU 0's data caches, nearest first
  int num_caches = 0;
  bool has_distance[6] = {};  // by the classes of base/distances.h
};

// Returns the type of this node. Members that the kernel does not report stay empty; caches then get typical sizes, as
// in python/nearfield/base/topology.py. `root` is prefixed to all paths, so that tests can describe other nodes.
NodeType read_node_type(const char* root = "");

// Writes the names of the distances that the node has, separated by spaces. `text` must have room for all six names.
void format_distances(const NodeType& type, char* text, std::size_t size);

}  // namespace nearfield

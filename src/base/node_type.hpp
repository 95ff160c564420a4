// The type of a compute node, as far as rules depend on it: processor, caches, and the distances between its cores.
//
// Reads the beginning of /proc/cpuinfo and about ten files of sysfs, where hwloc reads hundreds. Examines CPU 0 and
// what it shares, and assumes that all cores are alike. Uses no C++ library, since the shared heap is linked to none.
#pragma once

#include <cstddef>

namespace nearfield {

struct NodeType {
  static constexpr int max_caches = 8;
  char processor[128] = "";      // the model name, its words separated by one space; empty if the kernel reports none
  long cache_bytes[max_caches];  // of CPU 0's data caches, nearest first
  int num_caches = 0;
  bool has_distance[6] = {};  // by the classes of base/distances.h
};

// Returns the type of this node. What the kernel does not report stays empty; caches then have the usual sizes, as in
// python/nearfield/base/topology.py. `root` is put before the names of all files; tests describe other nodes there.
NodeType read_node_type(const char* root = "");

// Writes the names of the distances, separated by spaces. `text` has room for all six.
void format_distances(const NodeType& type, char* text, std::size_t size);

}  // namespace nearfield

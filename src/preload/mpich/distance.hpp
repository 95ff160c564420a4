// Determines the distance of two ranks of a node, from the kernel's description of the machine in /sys and the CPUs on
// which each rank may run. hwloc is deliberately not used, because this library is loaded into other people's programs.
// The classes of distance and two rules (instruction caches do not count; same-numa holds only inside a package) are
// those of topology/distance.hpp.
#pragma once

#include <array>
#include <bitset>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/distances.h"

namespace nearfield::tune {

enum class Distance { NEARFIELD_EACH_DISTANCE(NEARFIELD_DISTANCE_ENUMERATOR) };

// Names of the distances, nearest first; the index is the enumerator's value.
inline constexpr std::array<std::string_view, 6> distance_names{NEARFIELD_EACH_DISTANCE(NEARFIELD_DISTANCE_NAME)};

// As large as the kernel's largest CPU set, and trivially copyable, so that ranks can exchange it.
using CpuSet = std::bitset<8192>;

// Sets of CPUs that share hardware: cpu_sets_by_distance[d] are the CPU sets of the cores, caches, NUMA nodes or
// packages inside which two ranks have the distance d. same_node needs no sets.
struct SharedHardware {
  std::array<std::vector<CpuSet>, 5> cpu_sets_by_distance;
};

// Reads <root>/devices/system/{cpu,node}. Missing files, of which virtual machines have many, yield no objects.
SharedHardware read_shared_hardware(const std::filesystem::path& root);

// Parses a list such as "0-3,8", as in the kernel's *_list files. Leaves out CPU numbers that CpuSet cannot hold.
CpuSet parse_cpu_list(std::string_view text);

// Returns the nearest distance with an object that contains all CPUs of both sets, since a rank may move to any of its
// CPUs; same_node if there is no such object, or if a set is empty.
Distance distance_between(const SharedHardware& hardware, const CpuSet& a, const CpuSet& b);

}  // namespace nearfield::tune

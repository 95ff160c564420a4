// The distance of two ranks of a node, from the kernel's description of the machine and the CPUs that each rank may
// use. hwloc is deliberately not used: this is loaded into other people's programs. The classes and the two rules
// (instruction caches do not count; same-numa holds only inside a package) are those of topology/distance.hpp.
#pragma once

#include <array>
#include <bitset>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "base/distances.h"

namespace nearfield::tune {

enum class Distance { NEARFIELD_EACH_DISTANCE(NEARFIELD_DISTANCE_ENUMERATOR) };

// Nearest first; the index is the enumerator's value.
inline constexpr std::array<std::string_view, 6> distance_names{NEARFIELD_EACH_DISTANCE(NEARFIELD_DISTANCE_NAME)};

std::optional<Distance> distance_named(std::string_view name);

// As large as the kernel's largest CPU set, and trivially copyable, so that ranks can exchange it.
using Cpus = std::bitset<8192>;

// The sets of CPUs that share hardware; objects[d] are those that give a pair the distance d. same_node needs none.
struct Hardware {
  std::array<std::vector<Cpus>, 5> objects;
};

// Reads <root>/devices/system/{cpu,node}. Missing files (virtual machines hide many) produce no class.
Hardware read_hardware(const std::filesystem::path& root);

// Parses "0-3,8" as in the kernel's *_list files; numbers that Cpus cannot hold are left out.
Cpus parse_cpu_list(std::string_view text);

// Returns the nearest class with an object that covers all CPUs of both, since a rank may move to any of its CPUs. An
// empty set gives same_node.
Distance distance_between(const Hardware& hardware, const Cpus& a, const Cpus& b);

}  // namespace nearfield::tune

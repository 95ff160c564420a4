// The topology of one node from hwloc, as plain data: the PUs (hardware threads) that this process may use, and the
// cores, caches, NUMA nodes and packages that cover these PUs. Excludes I/O devices, distances from firmware (SLIT),
// and PUs that are offline or forbidden by the cgroup or the affinity mask.
//
// A topology is loaded once per source, before measurements; it never changes, and several threads may read it. Only
// topology.cpp uses hwloc.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace nearfield::topology {

// The source of a topology is unusable, or a PU is not in the topology. what() is a human-readable cause.
struct TopologyError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// OS indices of PUs, ascending; they need not be contiguous.
using PuSet = std::vector<int>;

struct Cache {
  int level;
  std::string kind;  // "data", "unified" or "instruction"
  std::int64_t size_bytes;
  int line_bytes;           // 0 if unknown
  std::optional<int> ways;  // std::nullopt if unknown
  PuSet pus;
};

// One object of the tree of hardware, for drawings. Memory objects come before the objects that they serve, as in
// hwloc.
struct HardwareObject {
  using Value = std::variant<std::int64_t, std::string>;
  std::string type;  // type name of hwloc: "Package", "L3", "NUMANode", ...
  std::string name;  // human-readable name (CPU model, subtype); empty if unknown
  std::optional<int> os_index;
  std::vector<std::pair<std::string, Value>> attributes;
  std::vector<HardwareObject> children;
};

struct Topology {
  PuSet pus;
  std::vector<PuSet> cores;       // in the order of the tree; a PU whose core is unknown counts as a core
  std::vector<Cache> caches;      // sorted by level, kind and PUs
  std::vector<PuSet> numa_nodes;  // nodes near at least one usable PU; several may cover the same PUs (HBM and DDR)
  std::vector<PuSet> packages;
  std::string cpu_model;  // empty if unknown
  std::string xml;        // this topology as hwloc 2 XML
  HardwareObject tree;
};

// Returns the topology of the machine on which this process runs, restricted to the PUs that the process may use.
Topology load_live_topology();

// Returns the topology in the text of a file that `lstopo file.xml` wrote (hwloc 1 or 2). Throws TopologyError for an
// unusable text, even if it makes hwloc crash: a child process parses the text first.
Topology load_xml_topology(const std::string& xml);

// Returns the topology of a synthetic description of hwloc, such as "package:2 l3:2 core:4 pu:2". Throws TopologyError
// if it is unusable.
Topology load_synthetic_topology(const std::string& description);

}  // namespace nearfield::topology

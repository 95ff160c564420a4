// One node as hwloc describes it, as plain data: the PUs (hardware threads) that this process may use, and the cores,
// caches, NUMA nodes and packages that cover them. Leaves out I/O devices, distances claimed by firmware (SLIT), and
// every PU that is offline or that the cgroup or the affinity mask forbids.
//
// Loaded once per source, before any measuring; the result never changes and may be read by several threads. Only
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

// The source is unusable, or a PU is not in the topology. The text is for people and names the cause.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// PU numbers are the operating system's, ascending; they need not be contiguous.
using PuSet = std::vector<int>;

struct Cache {
  int level;
  std::string kind;  // "data", "unified" or "instruction"
  std::int64_t size_bytes;
  int line_bytes;           // 0 if unknown
  std::optional<int> ways;  // nothing if unknown
  PuSet pus;
};

// One object of the tree, for drawing. Memory objects come before the objects they serve, as in hwloc.
struct Node {
  using Value = std::variant<std::int64_t, std::string>;
  std::string type;  // hwloc's name of it: "Package", "L3", "NUMANode", ...
  std::string name;  // for people, if available (CPU model, subtype), else empty
  std::optional<int> os_index;
  std::vector<std::pair<std::string, Value>> attributes;
  std::vector<Node> children;
};

struct Topology {
  PuSet pus;
  std::vector<PuSet> cores;       // in the order of the tree; a PU of which no core is known is a core of its own
  std::vector<Cache> caches;      // by level, then kind, then first PU
  std::vector<PuSet> numa_nodes;  // those near at least one of our PUs; several may serve the same PUs (HBM and DDR)
  std::vector<PuSet> packages;
  std::string cpu_model;  // empty if unknown
  std::string xml;        // hwloc 2 XML of exactly this
  Node tree;
};

// Returns the machine that this process runs on, restricted to the PUs that it may use.
Topology load_live();

// Returns the machine described by the text of a file that `lstopo file.xml` wrote (hwloc 1 or 2). Throws Error for
// text that makes hwloc crash, too: a child process parses it first.
Topology load_xml(const std::string& xml);

// Returns the machine of hwloc's synthetic description, e.g. "package:2 l3:2 core:4 pu:2".
Topology load_synthetic(const std::string& description);

}  // namespace nearfield::topology

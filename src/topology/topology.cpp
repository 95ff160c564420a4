#include "topology/topology.hpp"

#include <fcntl.h>
#include <hwloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <string_view>
#include <tuple>

namespace nearfield::topology {
namespace {

constexpr unsigned max_parse_seconds =
    10;  // time limit for parsing a file; the largest machine takes less than one second

struct HwlocDestroyer {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<hwloc_topology, HwlocDestroyer>;

[[noreturn]] void throw_errno(const std::string& failed_action) {
  throw TopologyError(failed_action + ": " + std::strerror(errno));
}

HwlocTopology create_hwloc_topology() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) throw_errno("hwloc_topology_init");
  HwlocTopology owner(topology);
  // By default hwloc leaves out instruction caches and memory-side caches. I/O devices remain excluded.
  hwloc_topology_set_icache_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_type_filter(topology, HWLOC_OBJ_MEMCACHE, HWLOC_TYPE_FILTER_KEEP_ALL);
  return owner;
}

PuSet pu_numbers_of(hwloc_const_bitmap_t set) {
  PuSet pus;
  for (int pu = hwloc_bitmap_first(set); pu >= 0; pu = hwloc_bitmap_next(set, pu)) pus.push_back(pu);
  return pus;
}

std::vector<PuSet> list_pu_sets(hwloc_topology_t topology, hwloc_obj_type_t type) {
  std::vector<PuSet> sets;
  for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr;) {
    if (PuSet pus = pu_numbers_of(object->cpuset); !pus.empty()) sets.push_back(std::move(pus));
  }
  return sets;
}

std::vector<PuSet> list_cores(hwloc_topology_t topology) {
  std::vector<PuSet> cores;
  for (hwloc_obj_t pu = nullptr; (pu = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, pu)) != nullptr;) {
    const hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, pu);
    const PuSet pus = core != nullptr ? pu_numbers_of(core->cpuset) : PuSet{static_cast<int>(pu->os_index)};
    if (cores.empty() || cores.back() != pus) cores.push_back(pus);
  }
  return cores;
}

std::string cache_kind(hwloc_obj_cache_type_t type) {
  if (type == HWLOC_OBJ_CACHE_UNIFIED) return "unified";
  return type == HWLOC_OBJ_CACHE_DATA ? "data" : "instruction";
}

// Returns the associativity of a cache; nullopt if unknown. hwloc stores 0 for unknown and -1 for fully associative; a
// fully associative cache has as many ways as lines.
std::optional<int> ways_of(const hwloc_obj_attr_u::hwloc_cache_attr_s& cache) {
  if (cache.associativity > 0) return cache.associativity;
  if (cache.associativity == 0 || cache.linesize == 0) return std::nullopt;
  return static_cast<int>(cache.size / cache.linesize);
}

Cache make_cache(const hwloc_obj& object) {
  const auto& cache = object.attr->cache;
  return {static_cast<int>(cache.depth),    cache_kind(cache.type), static_cast<std::int64_t>(cache.size),
          static_cast<int>(cache.linesize), ways_of(cache),         pu_numbers_of(object.cpuset)};
}

// Returns whether a cache belongs to cores, not to a NUMA node. A memory-side cache appears only in the tree of
// hardware objects; files of hwloc before 2.1 describe it as an L3 with a subtype.
bool is_core_cache(const hwloc_obj& cache) {
  const bool is_memory_side = cache.subtype != nullptr && std::string_view(cache.subtype) == "MemorySideCache";
  return !is_memory_side && !hwloc_bitmap_iszero(cache.cpuset);
}

std::vector<Cache> list_caches(hwloc_topology_t topology) {
  std::vector<Cache> caches;
  for (int depth = 0; depth < hwloc_topology_get_depth(topology); ++depth) {
    if (!hwloc_obj_type_is_cache(hwloc_get_depth_type(topology, depth))) continue;
    for (unsigned i = 0; i < hwloc_get_nbobjs_by_depth(topology, depth); ++i) {
      const hwloc_obj_t object = hwloc_get_obj_by_depth(topology, depth, i);
      if (is_core_cache(*object)) caches.push_back(make_cache(*object));
    }
  }
  std::sort(caches.begin(), caches.end(), [](const Cache& a, const Cache& b) {
    return std::tie(a.level, a.kind, a.pus) < std::tie(b.level, b.kind, b.pus);
  });
  return caches;
}

std::string cpu_model(hwloc_topology_t topology) {
  for (hwloc_obj_t object : {hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0), hwloc_get_root_obj(topology)}) {
    const char* model = object != nullptr ? hwloc_obj_get_info_by_name(object, "CPUModel") : nullptr;
    if (model != nullptr) return model;
  }
  return {};
}

std::string type_name(const hwloc_obj& object) {
  char text[64];
  hwloc_obj_type_snprintf(text, sizeof text, const_cast<hwloc_obj*>(&object), 0);
  return text;
}

std::string display_name(const hwloc_obj& object) {
  const char* model = hwloc_obj_get_info_by_name(const_cast<hwloc_obj*>(&object), "CPUModel");
  if (object.type == HWLOC_OBJ_PACKAGE && model != nullptr) return model;
  if (object.subtype != nullptr) return object.subtype;
  return object.name != nullptr ? object.name : "";
}

void add_attributes(const hwloc_obj& object, HardwareObject& node) {
  if (hwloc_obj_type_is_cache(object.type) || object.type == HWLOC_OBJ_MEMCACHE) {
    const auto& cache = object.attr->cache;
    node.attributes.emplace_back("size_bytes", static_cast<std::int64_t>(cache.size));
    if (cache.linesize > 0) node.attributes.emplace_back("line_bytes", static_cast<std::int64_t>(cache.linesize));
    if (const auto ways = ways_of(cache)) node.attributes.emplace_back("ways", static_cast<std::int64_t>(*ways));
  } else if (object.type == HWLOC_OBJ_NUMANODE) {
    const auto bytes = static_cast<std::int64_t>(object.attr->numanode.local_memory);
    if (bytes > 0) node.attributes.emplace_back("memory_bytes", bytes);
  }
}

HardwareObject make_tree(const hwloc_obj& object) {
  HardwareObject node{type_name(object), display_name(object), std::nullopt, {}, {}};
  if (object.os_index != HWLOC_UNKNOWN_INDEX && !hwloc_obj_type_is_cache(object.type))
    node.os_index = static_cast<int>(object.os_index);
  add_attributes(object, node);
  for (auto* child = object.memory_first_child; child != nullptr; child = child->next_sibling)
    node.children.push_back(make_tree(*child));
  for (auto* child = object.first_child; child != nullptr; child = child->next_sibling)
    node.children.push_back(make_tree(*child));
  return node;
}

std::string export_xml(hwloc_topology_t topology) {
  char* buffer = nullptr;
  int length = 0;
  if (hwloc_topology_export_xmlbuffer(topology, &buffer, &length, 0) != 0) throw_errno("hwloc cannot export XML");
  std::string text(buffer, std::strlen(buffer));  // the length that hwloc returns includes the terminating zero
  hwloc_free_xmlbuffer(topology, buffer);
  return text;
}

Topology make_topology(hwloc_topology_t topology) {
  const hwloc_obj_t root = hwloc_get_root_obj(topology);
  return {pu_numbers_of(root->cpuset),
          list_cores(topology),
          list_caches(topology),
          list_pu_sets(topology, HWLOC_OBJ_NUMANODE),
          list_pu_sets(topology, HWLOC_OBJ_PACKAGE),
          cpu_model(topology),
          export_xml(topology),
          make_tree(*root)};
}

// Removes PUs outside the affinity mask (taskset, srun). hwloc itself removes only PUs that the cgroup forbids.
void restrict_to_affinity_mask(hwloc_topology_t topology) {
  const std::unique_ptr<hwloc_bitmap_s, void (*)(hwloc_bitmap_t)> mask(hwloc_bitmap_alloc(), hwloc_bitmap_free);
  if (hwloc_get_cpubind(topology, mask.get(), HWLOC_CPUBIND_PROCESS) != 0) throw_errno("hwloc_get_cpubind");
  if (hwloc_topology_restrict(topology, mask.get(), HWLOC_RESTRICT_FLAG_REMOVE_CPULESS) != 0)
    throw_errno("hwloc_topology_restrict to the affinity mask of this process");
}

Topology parse_xml(const std::string& xml) {
  const HwlocTopology owner = create_hwloc_topology();
  if (hwloc_topology_set_xmlbuffer(owner.get(), xml.c_str(), static_cast<int>(xml.size() + 1)) != 0)
    throw_errno("hwloc cannot read this XML");
  if (hwloc_topology_load(owner.get()) != 0) throw_errno("hwloc cannot build a topology from this XML");
  return make_topology(owner.get());
}

// Parses a file in a child process, which may crash. Never returns.
[[noreturn]] void parse_xml_and_exit(const std::string& xml) {
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM, SIGXCPU}) std::signal(signal, SIG_DFL);
  const rlimit no_core_dump{0, 0};
  setrlimit(RLIMIT_CORE, &no_core_dump);
  const int dev_null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (dev_null >= 0) dup2(dev_null, STDERR_FILENO);  // silences assertion messages; the parent reports the crash
  alarm(max_parse_seconds);
  try {
    parse_xml(xml);
  } catch (...) {  // the parent gets the same error and reports it
  }
  _exit(0);
}

// Parses a file in a child process first, and throws TopologyError if the child crashes: hwloc does not validate files,
// and a damaged file can crash it. The forked child has the same memory as this process, so a file that does not crash
// the child does not crash this process.
void parse_in_child(const std::string& xml) {
  const pid_t child = fork();
  if (child < 0) throw_errno("cannot start a process that reads this XML");
  if (child == 0) parse_xml_and_exit(xml);
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) throw_errno("cannot wait for the process that reads this XML");
  if (WIFSIGNALED(status))
    throw TopologyError("hwloc does not survive this XML: " + std::string(strsignal(WTERMSIG(status))));
}

}  // namespace

Topology load_live_topology() {
  const HwlocTopology owner = create_hwloc_topology();
  if (hwloc_topology_load(owner.get()) != 0) throw_errno("hwloc cannot read the topology of this machine");
  // HWLOC_XMLFILE, HWLOC_SYNTHETIC and HWLOC_FSROOT silently make hwloc describe another machine.
  if (!hwloc_topology_is_thissystem(owner.get()))
    throw TopologyError("an HWLOC_* environment variable makes hwloc describe another machine than this one");
  restrict_to_affinity_mask(owner.get());
  return make_topology(owner.get());
}

Topology load_xml_topology(const std::string& xml) {
  parse_in_child(xml);
  return parse_xml(xml);
}

Topology load_synthetic_topology(const std::string& description) {
  const HwlocTopology owner = create_hwloc_topology();
  if (hwloc_topology_set_synthetic(owner.get(), description.c_str()) != 0)
    throw_errno("hwloc cannot read the synthetic description '" + description + "'");
  if (hwloc_topology_load(owner.get()) != 0) throw_errno("hwloc cannot build a topology from '" + description + "'");
  return make_topology(owner.get());
}

}  // namespace nearfield::topology

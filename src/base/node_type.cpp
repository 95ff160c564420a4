#include "base/node_type.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "base/distances.h"

namespace nearfield {
namespace {

constexpr const char* distance_names[] = {NEARFIELD_EACH_DISTANCE(NEARFIELD_DISTANCE_NAME)};
// Formats the paths of files in /proc and /sys, below the folder `root`.
class KernelFiles {
 public:
  explicit KernelFiles(const char* root) : root_(root) {}

  // Returns the path of a file, which is valid until the next call.
  const char* format_path(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int used = std::snprintf(path_, sizeof path_, "%s", root_);
    if (used >= 0 && static_cast<std::size_t>(used) < sizeof path_)
      std::vsnprintf(path_ + used, sizeof path_ - static_cast<std::size_t>(used), format, arguments);
    va_end(arguments);
    return path_;
  }

 private:
  const char* root_;
  char path_[1024];
};

constexpr char cpu0[] = "/sys/devices/system/cpu/cpu0";

// Reads the beginning of a file into `text`, which is terminated by '\0'. Returns false if the file is missing or
// empty.
bool read_text(const char* format_path, char* text, std::size_t size) {
  text[0] = '\0';
  const int file = open(format_path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t length = read(file, text, size - 1);
  close(file);
  text[length > 0 ? length : 0] = '\0';
  return length > 0;
}

class CpuSet {
 public:
  // Returns the CPUs of a list such as "0-3,8" in the file; none if there is no such file.
  static CpuSet read(const char* format_path) {
    CpuSet set;
    char text[4096];
    if (!read_text(format_path, text, sizeof text)) return set;
    for (char* position = text; *position >= '0' && *position <= '9'; position += *position == ',') {
      const long first = std::strtol(position, &position, 10);
      const long last = *position == '-' ? std::strtol(position + 1, &position, 10) : first;
      for (long cpu = first; cpu <= last && cpu < 64 * num_words; ++cpu)
        set.bits_[cpu / 64] |= std::uint64_t{1} << cpu % 64;
    }
    return set;
  }

  bool is_empty() const { return !has_cpu_outside(CpuSet{}); }
  // Returns whether this set has a CPU that is not in `other`.
  bool has_cpu_outside(const CpuSet& other) const {
    for (int i = 0; i < num_words; ++i)
      if (bits_[i] & ~other.bits_[i]) return true;
    return false;
  }
  void add(const CpuSet& other) {
    for (int i = 0; i < num_words; ++i) bits_[i] |= other.bits_[i];
  }
  void intersect(const CpuSet& other) {
    for (int i = 0; i < num_words; ++i) bits_[i] &= other.bits_[i];
  }
  bool has_multiple_cpus() const {
    int count = 0;
    for (int i = 0; i < num_words; ++i) count += __builtin_popcountll(bits_[i]);
    return count > 1;
  }

 private:
  static constexpr int num_words = 128;
  std::uint64_t bits_[num_words] = {};
};

// Returns the CPUs in the file `name` of CPU 0's topology; they share a core, a package, ... with CPU 0. Older kernels
// have the file as `old_name`, newer kernels under both names.
CpuSet read_sharers(KernelFiles& files, const char* name, const char* old_name) {
  const CpuSet set = CpuSet::read(files.format_path("%s/topology/%s", cpu0, name));
  return set.is_empty() ? CpuSet::read(files.format_path("%s/topology/%s", cpu0, old_name)) : set;
}

CpuSet read_numa_node_cpus(KernelFiles& files) {
  CpuSet set;
  DIR* folder = opendir(files.format_path("%s", cpu0));
  if (!folder) return set;
  while (const dirent* entry = readdir(folder))
    if (std::strncmp(entry->d_name, "node", 4) == 0)
      set = CpuSet::read(files.format_path("/sys/devices/system/node/%s/cpulist", entry->d_name));
  closedir(folder);
  return set;
}

void read_processor(KernelFiles& files, NodeType& type) {
  char text[4096];
  if (!read_text(files.format_path("/proc/cpuinfo"), text, sizeof text)) return;
  const char* line = std::strstr(text, "model name");
  if (!line || !(line = std::strchr(line, ':'))) return;
  std::size_t length = 0;
  for (++line; *line && *line != '\n' && length + 1 < sizeof type.processor; ++line) {
    const bool is_space = *line == ' ' || *line == '\t';
    if (is_space && (length == 0 || type.processor[length - 1] == ' ')) continue;
    type.processor[length++] = is_space ? ' ' : *line;
  }
  if (length && type.processor[length - 1] == ' ') --length;
  type.processor[length] = '\0';
}

// Reads the sizes of CPU 0's data caches, and which CPUs share its second-level and its third-level cache.
void read_caches(KernelFiles& files, NodeType& type, CpuSet& l2_sharers, CpuSet& l3_sharers) {
  for (int index = 0; type.num_caches < NodeType::max_caches; ++index) {
    char text[64];
    const auto path_of = [&](const char* name) { return files.format_path("%s/cache/index%d/%s", cpu0, index, name); };
    if (!read_text(path_of("size"), text, sizeof text)) break;
    char* unit = nullptr;
    const long size = std::strtol(text, &unit, 10);
    const long bytes = *unit == 'M' ? size << 20 : *unit == 'K' ? size << 10 : size;
    if (read_text(path_of("type"), text, sizeof text) && text[0] == 'I') continue;  // an instruction cache
    type.cache_bytes[type.num_caches++] = bytes;
    if (!read_text(path_of("level"), text, sizeof text)) continue;
    if (text[0] == '2') l2_sharers = CpuSet::read(path_of("shared_cpu_list"));
    if (text[0] == '3') l3_sharers = CpuSet::read(path_of("shared_cpu_list"));
  }
  if (type.num_caches) return;
  for (const long usual_bytes : {32L << 10, 1L << 20, 32L << 20}) type.cache_bytes[type.num_caches++] = usual_bytes;
}

}  // namespace

NodeType read_node_type(const char* root) {
  KernelFiles files(root);
  NodeType type;
  CpuSet l2_sharers, l3_sharers;
  read_processor(files, type);
  read_caches(files, type, l2_sharers, l3_sharers);
  const CpuSet core = read_sharers(files, "core_cpus_list", "thread_siblings_list");
  const CpuSet package = read_sharers(files, "package_cpus_list", "core_siblings_list");
  CpuSet numa = read_numa_node_cpus(files);
  if (!package.is_empty()) numa.intersect(package);  // if firmware disables NUMA, one NUMA node spans all packages
  type.has_distance[0] = core.has_multiple_cpus();
  CpuSet nearer = core;
  int distance = 1;
  for (const CpuSet& set :
       {l2_sharers, l3_sharers, numa, package, CpuSet::read(files.format_path("/sys/devices/system/cpu/online"))}) {
    type.has_distance[distance++] = set.has_cpu_outside(nearer);
    nearer.add(set);
  }
  return type;
}

void format_distances(const NodeType& type, char* text, std::size_t size) {
  text[0] = '\0';
  for (std::size_t i = 0; i < sizeof distance_names / sizeof *distance_names; ++i)
    if (type.has_distance[i]) {
      const std::size_t used = std::strlen(text);
      std::snprintf(text + used, size - used, "%s%s", used ? " " : "", distance_names[i]);
    }
}

}  // namespace nearfield

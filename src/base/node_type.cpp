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
// The files of the kernel below a root.
class Files {
 public:
  explicit Files(const char* root) : root_(root) {}

  // Returns the path of a file, which is valid until the next call.
  const char* path(const char* format, ...) {
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

// Reads the beginning of a file. Returns whether there is any; the text ends with '\0'.
bool read_text(const char* path, char* text, std::size_t size) {
  text[0] = '\0';
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t length = read(file, text, size - 1);
  close(file);
  text[length > 0 ? length : 0] = '\0';
  return length > 0;
}

class CpuSet {
 public:
  // Returns the CPUs of a list such as "0-3,8" in the file; none if there is no such file.
  static CpuSet read(const char* path) {
    CpuSet set;
    char text[4096];
    if (!read_text(path, text, sizeof text)) return set;
    for (char* rest = text; *rest >= '0' && *rest <= '9'; rest += *rest == ',') {
      const long first = std::strtol(rest, &rest, 10);
      const long last = *rest == '-' ? std::strtol(rest + 1, &rest, 10) : first;
      for (long cpu = first; cpu <= last && cpu < 64 * words; ++cpu)
        set.bits_[cpu / 64] |= std::uint64_t{1} << cpu % 64;
    }
    return set;
  }

  bool is_empty() const { return !is_beyond(CpuSet{}); }
  // Returns whether this set has a CPU that `other` does not have.
  bool is_beyond(const CpuSet& other) const {
    for (int i = 0; i < words; ++i)
      if (bits_[i] & ~other.bits_[i]) return true;
    return false;
  }
  void add(const CpuSet& other) {
    for (int i = 0; i < words; ++i) bits_[i] |= other.bits_[i];
  }
  void intersect(const CpuSet& other) {
    for (int i = 0; i < words; ++i) bits_[i] &= other.bits_[i];
  }
  bool has_several() const {
    int count = 0;
    for (int i = 0; i < words; ++i) count += __builtin_popcountll(bits_[i]);
    return count > 1;
  }

 private:
  static constexpr int words = 128;
  std::uint64_t bits_[words] = {};
};

// Returns the CPUs that share something with CPU 0. The kernel has renamed these files; newer ones have both names.
CpuSet read_sharers(Files& files, const char* name, const char* old_name) {
  const CpuSet set = CpuSet::read(files.path("%s/topology/%s", cpu0, name));
  return set.is_empty() ? CpuSet::read(files.path("%s/topology/%s", cpu0, old_name)) : set;
}

CpuSet read_numa_node(Files& files) {
  CpuSet set;
  DIR* folder = opendir(files.path("%s", cpu0));
  if (!folder) return set;
  while (const dirent* entry = readdir(folder))
    if (std::strncmp(entry->d_name, "node", 4) == 0)
      set = CpuSet::read(files.path("/sys/devices/system/node/%s/cpulist", entry->d_name));
  closedir(folder);
  return set;
}

void read_processor(Files& files, NodeType& type) {
  char text[4096];
  if (!read_text(files.path("/proc/cpuinfo"), text, sizeof text)) return;
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

// Reads the sizes of the data caches, and which CPUs share those of the second and the third level.
void read_caches(Files& files, NodeType& type, CpuSet& share_l2, CpuSet& share_l3) {
  for (int index = 0; type.num_caches < NodeType::max_caches; ++index) {
    char text[64];
    const auto path_of = [&](const char* name) { return files.path("%s/cache/index%d/%s", cpu0, index, name); };
    if (!read_text(path_of("size"), text, sizeof text)) break;
    char* unit = nullptr;
    const long size = std::strtol(text, &unit, 10);
    const long bytes = *unit == 'M' ? size << 20 : *unit == 'K' ? size << 10 : size;
    if (read_text(path_of("type"), text, sizeof text) && text[0] == 'I') continue;  // of instructions
    type.cache_bytes[type.num_caches++] = bytes;
    if (!read_text(path_of("level"), text, sizeof text)) continue;
    if (text[0] == '2') share_l2 = CpuSet::read(path_of("shared_cpu_list"));
    if (text[0] == '3') share_l3 = CpuSet::read(path_of("shared_cpu_list"));
  }
  if (type.num_caches) return;
  for (const long usual : {32L << 10, 1L << 20, 32L << 20}) type.cache_bytes[type.num_caches++] = usual;
}

}  // namespace

NodeType read_node_type(const char* root) {
  Files files(root);
  NodeType type;
  CpuSet share_l2, share_l3;
  read_processor(files, type);
  read_caches(files, type, share_l2, share_l3);
  const CpuSet core = read_sharers(files, "core_cpus_list", "thread_siblings_list");
  const CpuSet package = read_sharers(files, "package_cpus_list", "core_siblings_list");
  CpuSet numa = read_numa_node(files);
  if (!package.is_empty()) numa.intersect(package);  // without NUMA in the firmware, one node spans the packages
  type.has_distance[0] = core.has_several();
  CpuSet nearer = core;
  int distance = 1;
  for (const CpuSet& set :
       {share_l2, share_l3, numa, package, CpuSet::read(files.path("/sys/devices/system/cpu/online"))}) {
    type.has_distance[distance++] = set.is_beyond(nearer);
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

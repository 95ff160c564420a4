#include "preload/mpich/distance.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>
#include <system_error>

namespace nearfield::tune {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// Returns the entries of a folder that are named <stem><number>: cpu12, but not cpufreq.
std::vector<fs::path> numbered_entries(const fs::path& folder, std::string_view stem) {
  std::vector<fs::path> found;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    const bool is_one = name.size() > stem.size() && name.starts_with(stem) &&
                        std::all_of(name.begin() + static_cast<std::ptrdiff_t>(stem.size()), name.end(),
                                    [](unsigned char c) { return c >= '0' && c <= '9'; });
    if (is_one) found.push_back(entry->path());
  }
  return found;
}

void add_object(std::vector<Cpus>& objects, const Cpus& cpus) {
  if (cpus.any() && std::find(objects.begin(), objects.end(), cpus) == objects.end()) objects.push_back(cpus);
}

// Returns the CPUs that the file `name` lists, or else the file `old_name`: kernels before 5.1 have only the latter.
Cpus read_cpu_list(const fs::path& folder, const char* name, const char* old_name) {
  const Cpus cpus = parse_cpu_list(first_line(folder / name));
  return cpus.any() ? cpus : parse_cpu_list(first_line(folder / old_name));
}

void add_caches(Hardware& hardware, const fs::path& cpu) {
  for (const fs::path& cache : numbered_entries(cpu / "cache", "index")) {
    const std::string level = first_line(cache / "level");
    if (first_line(cache / "type") == "Instruction") continue;
    const auto kind = level == "2" ? Distance::shared_l2 : Distance::shared_l3;
    if (level == "2" || level == "3")
      add_object(hardware.objects[static_cast<std::size_t>(kind)],
                 parse_cpu_list(first_line(cache / "shared_cpu_list")));
  }
}

std::vector<Cpus>& objects_at(Hardware& hardware, Distance distance) {
  return hardware.objects[static_cast<std::size_t>(distance)];
}

}  // namespace

std::optional<Distance> distance_from_name(std::string_view name) {
  const auto found = std::find(distance_names.begin(), distance_names.end(), name);
  if (found == distance_names.end()) return std::nullopt;
  return static_cast<Distance>(found - distance_names.begin());
}

Cpus parse_cpu_list(std::string_view text) {
  Cpus cpus;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    std::size_t first = 0, last = 0;
    auto read = std::from_chars(at, end, first);
    if (read.ec != std::errc()) break;
    last = first;
    if (read.ptr < end && *read.ptr == '-') read = std::from_chars(read.ptr + 1, end, last);
    if (read.ec != std::errc()) break;
    for (std::size_t cpu = first; cpu <= last && cpu < cpus.size(); ++cpu) cpus.set(cpu);
    if (read.ptr >= end || *read.ptr != ',') break;
    at = read.ptr + 1;
  }
  return cpus;
}

Hardware read_hardware(const fs::path& root) {
  Hardware hardware;
  const fs::path system = root / "devices/system";
  for (const fs::path& cpu : numbered_entries(system / "cpu", "cpu")) {
    add_object(objects_at(hardware, Distance::same_core),
               read_cpu_list(cpu / "topology", "core_cpus_list", "thread_siblings_list"));
    add_object(objects_at(hardware, Distance::same_package),
               read_cpu_list(cpu / "topology", "package_cpus_list", "core_siblings_list"));
    add_caches(hardware, cpu);
  }
  for (const fs::path& node : numbered_entries(system / "node", "node")) {
    const Cpus cpus = parse_cpu_list(first_line(node / "cpulist"));
    for (const Cpus& package : objects_at(hardware, Distance::same_package))
      add_object(objects_at(hardware, Distance::same_numa), cpus & package);
    if (objects_at(hardware, Distance::same_package).empty())
      add_object(objects_at(hardware, Distance::same_numa), cpus);
  }
  return hardware;
}

Distance distance_between(const Hardware& hardware, const Cpus& a, const Cpus& b) {
  const Cpus both = a | b;
  if (a.none() || b.none()) return Distance::same_node;
  for (std::size_t level = 0; level < hardware.objects.size(); ++level)
    for (const Cpus& object : hardware.objects[level])
      if ((both & ~object).none()) return static_cast<Distance>(level);
  return Distance::same_node;
}

}  // namespace nearfield::tune

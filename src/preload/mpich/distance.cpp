#include "preload/mpich/distance.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>
#include <system_error>

namespace nearfield::tune {
namespace {

namespace fs = std::filesystem;

std::string read_first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// Returns the entries of a folder that are named <stem><number>: cpu12, but not cpufreq.
std::vector<fs::path> list_numbered_entries(const fs::path& folder, std::string_view stem) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool is_numbered = name.size() > stem.size() && name.starts_with(stem) &&
                             std::all_of(name.begin() + static_cast<std::ptrdiff_t>(stem.size()), name.end(),
                                         [](unsigned char c) { return c >= '0' && c <= '9'; });
    if (is_numbered) found.push_back(entry->path());
  }
  return found;
}

void add_cpu_set(std::vector<CpuSet>& cpu_sets, const CpuSet& cpus) {
  if (cpus.any() && std::find(cpu_sets.begin(), cpu_sets.end(), cpus) == cpu_sets.end()) cpu_sets.push_back(cpus);
}

// Returns the CPUs that the file `name` lists; if the file is missing, those of the file `old_name`, the only one that
// kernels before 5.1 have.
CpuSet read_cpu_list(const fs::path& folder, const char* name, const char* old_name) {
  const CpuSet cpus = parse_cpu_list(read_first_line(folder / name));
  return cpus.any() ? cpus : parse_cpu_list(read_first_line(folder / old_name));
}

void add_caches(SharedHardware& hardware, const fs::path& cpu) {
  for (const fs::path& cache : list_numbered_entries(cpu / "cache", "index")) {
    const std::string level = read_first_line(cache / "level");
    if (read_first_line(cache / "type") == "Instruction") continue;
    const auto distance = level == "2" ? Distance::shared_l2 : Distance::shared_l3;
    if (level == "2" || level == "3")
      add_cpu_set(hardware.cpu_sets_by_distance[static_cast<std::size_t>(distance)],
                  parse_cpu_list(read_first_line(cache / "shared_cpu_list")));
  }
}

std::vector<CpuSet>& cpu_sets_at(SharedHardware& hardware, Distance distance) {
  return hardware.cpu_sets_by_distance[static_cast<std::size_t>(distance)];
}

}  // namespace

CpuSet parse_cpu_list(std::string_view text) {
  CpuSet cpus;
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

SharedHardware read_shared_hardware(const fs::path& root) {
  SharedHardware hardware;
  const fs::path system = root / "devices/system";
  for (const fs::path& cpu : list_numbered_entries(system / "cpu", "cpu")) {
    add_cpu_set(cpu_sets_at(hardware, Distance::same_core),
                read_cpu_list(cpu / "topology", "core_cpus_list", "thread_siblings_list"));
    add_cpu_set(cpu_sets_at(hardware, Distance::same_package),
                read_cpu_list(cpu / "topology", "package_cpus_list", "core_siblings_list"));
    add_caches(hardware, cpu);
  }
  for (const fs::path& node : list_numbered_entries(system / "node", "node")) {
    const CpuSet cpus = parse_cpu_list(read_first_line(node / "cpulist"));
    for (const CpuSet& package : cpu_sets_at(hardware, Distance::same_package))
      add_cpu_set(cpu_sets_at(hardware, Distance::same_numa), cpus & package);
    if (cpu_sets_at(hardware, Distance::same_package).empty())
      add_cpu_set(cpu_sets_at(hardware, Distance::same_numa), cpus);
  }
  return hardware;
}

Distance distance_between(const SharedHardware& hardware, const CpuSet& a, const CpuSet& b) {
  const CpuSet union_of_sets = a | b;
  if (a.none() || b.none()) return Distance::same_node;
  for (std::size_t level = 0; level < hardware.cpu_sets_by_distance.size(); ++level)
    for (const CpuSet& cpu_set : hardware.cpu_sets_by_distance[level])
      if ((union_of_sets & ~cpu_set).none()) return static_cast<Distance>(level);
  return Distance::same_node;
}

}  // namespace nearfield::tune

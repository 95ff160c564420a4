#include "preload/forecast/usage.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "preload/forecast/record.hpp"

namespace nearfield::forecast {
namespace {

std::uint64_t to_ns(const timeval& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_usec) * 1000;
}

// Reads the beginning of a file into `text`, terminated by zero. Returns false if the file cannot be read.
bool read_file_start(const char* path, char* text, std::size_t size) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t length = read(file, text, size - 1);
  close(file);
  text[length > 0 ? length : 0] = 0;
  return length > 0;
}

// Adds the time in which the threads of this process were runnable without a core, from the second number of each
// /proc/self/task/TID/schedstat.
void add_scheduling_delays(ResourceUsage& usage) {
  DIR* const tasks = opendir("/proc/self/task");
  if (!tasks) return;
  while (const dirent* task = readdir(tasks)) {
    char path[320], text[128];
    unsigned long long runtime_ns = 0, delay_ns = 0;
    std::snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", task->d_name);
    if (task->d_name[0] == '.' || !read_file_start(path, text, sizeof text)) continue;
    if (std::sscanf(text, "%llu %llu", &runtime_ns, &delay_ns) != 2) continue;
    usage.delay_ns += delay_ns;
    if (runtime_ns) usage.is_delay_reported = 1;
  }
  closedir(tasks);
}

void add_node_cpu_times(ResourceUsage& usage) {
  char text[512];
  unsigned long long user = 0, nice = 0, system = 0, idle_clock_ticks = 0, iowait = 0, irq = 0, softirq = 0,
                     stolen_clock_ticks = 0;
  if (!read_file_start("/proc/stat", text, sizeof text)) return;
  std::sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle_clock_ticks, &iowait,
              &irq, &softirq, &stolen_clock_ticks);
  usage.busy_clock_ticks = user + nice + system + irq + softirq;
  usage.idle_clock_ticks = idle_clock_ticks + iowait;
  usage.stolen_clock_ticks = stolen_clock_ticks;
}

}  // namespace

ResourceUsage read_usage() {
  ResourceUsage usage{};
  timespec wall;
  rusage resource_usage{};
  add_scheduling_delays(usage);
  add_node_cpu_times(usage);
  getrusage(RUSAGE_SELF, &resource_usage);
  clock_gettime(CLOCK_MONOTONIC, &wall);
  usage.ticks = read_ticks();
  usage.wall_ns = static_cast<std::uint64_t>(wall.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(wall.tv_nsec);
  usage.user_ns = to_ns(resource_usage.ru_utime);
  usage.system_ns = to_ns(resource_usage.ru_stime);
  usage.minor_faults = static_cast<std::uint64_t>(resource_usage.ru_minflt);
  usage.max_resident_kib = static_cast<std::uint64_t>(resource_usage.ru_maxrss);
  usage.voluntary_switches = static_cast<std::uint64_t>(resource_usage.ru_nvcsw);
  usage.involuntary_switches = static_cast<std::uint64_t>(resource_usage.ru_nivcsw);
  return usage;
}

void record_affinity_mask(FileHeader& header) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return;
  for (int core = 0; core < 1024; ++core)
    if (CPU_ISSET(core, &set)) header.core_mask[core / 64] |= std::uint64_t{1} << core % 64;
}

double measure_page_fault_ns() {
  constexpr std::size_t num_means = 4, num_pages = 16, page_bytes = 4096;
  void* const memory =
      mmap(nullptr, num_means * num_pages * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 0;
  madvise(memory, num_means * num_pages * page_bytes, MADV_NOHUGEPAGE);
  double minimum = 1e9;  // minimum of the means, since other processes may use the core
  for (std::size_t mean = 0; mean < num_means; ++mean) {
    timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    for (std::size_t i = 0; i < num_pages; ++i)
      static_cast<volatile char*>(memory)[(mean * num_pages + i) * page_bytes] = 1;
    clock_gettime(CLOCK_MONOTONIC, &after);
    minimum = std::min(minimum, static_cast<double>(after.tv_sec - before.tv_sec) * 1e9 +
                                    static_cast<double>(after.tv_nsec - before.tv_nsec));
  }
  munmap(memory, num_means * num_pages * page_bytes);
  return minimum / static_cast<double>(num_pages);
}

}  // namespace nearfield::forecast

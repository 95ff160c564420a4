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
bool read_text(const char* path, char* text, std::size_t size) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t got = read(file, text, size - 1);
  close(file);
  text[got > 0 ? got : 0] = 0;
  return got > 0;
}

// Adds the time in which the threads of this process were runnable without a core, from the second number of each
// /proc/self/task/TID/schedstat.
void add_scheduling_delays(Usage& usage) {
  DIR* const tasks = opendir("/proc/self/task");
  if (!tasks) return;
  while (const dirent* task = readdir(tasks)) {
    char path[320], text[128];
    unsigned long long ran = 0, waited = 0;
    std::snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", task->d_name);
    if (task->d_name[0] == '.' || !read_text(path, text, sizeof text)) continue;
    if (std::sscanf(text, "%llu %llu", &ran, &waited) != 2) continue;
    usage.delay_ns += waited;
    if (ran) usage.has_delay = 1;
  }
  closedir(tasks);
}

void add_node_cpu_times(Usage& usage) {
  char text[512];
  unsigned long long user = 0, nice = 0, system = 0, idle = 0, waits = 0, irq = 0, soft = 0, stolen = 0;
  if (!read_text("/proc/stat", text, sizeof text)) return;
  std::sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &waits, &irq, &soft,
              &stolen);
  usage.busy = user + nice + system + irq + soft;
  usage.idle = idle + waits;
  usage.stolen = stolen;
}

}  // namespace

Usage read_usage() {
  Usage now{};
  timespec wall;
  rusage used{};
  add_scheduling_delays(now);
  add_node_cpu_times(now);
  getrusage(RUSAGE_SELF, &used);
  clock_gettime(CLOCK_MONOTONIC, &wall);
  now.ticks = read_ticks();
  now.wall_ns = static_cast<std::uint64_t>(wall.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(wall.tv_nsec);
  now.user_ns = to_ns(used.ru_utime);
  now.system_ns = to_ns(used.ru_stime);
  now.minor_faults = static_cast<std::uint64_t>(used.ru_minflt);
  now.resident_max = static_cast<std::uint64_t>(used.ru_maxrss);
  now.voluntary = static_cast<std::uint64_t>(used.ru_nvcsw);
  now.involuntary = static_cast<std::uint64_t>(used.ru_nivcsw);
  return now;
}

void record_affinity_mask(Header& header) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return;
  for (int core = 0; core < 1024; ++core)
    if (CPU_ISSET(core, &set)) header.cores[core / 64] |= std::uint64_t{1} << core % 64;
}

double measure_fault_ns() {
  constexpr std::size_t means = 4, pages = 16, page = 4096;
  void* const memory = mmap(nullptr, means * pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 0;
  madvise(memory, means * pages * page, MADV_NOHUGEPAGE);
  double minimum = 1e9;  // minimum of the means, since other processes may use the core
  for (std::size_t mean = 0; mean < means; ++mean) {
    timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    for (std::size_t i = 0; i < pages; ++i) static_cast<volatile char*>(memory)[(mean * pages + i) * page] = 1;
    clock_gettime(CLOCK_MONOTONIC, &after);
    minimum = std::min(minimum, static_cast<double>(after.tv_sec - before.tv_sec) * 1e9 +
                                    static_cast<double>(after.tv_nsec - before.tv_nsec));
  }
  munmap(memory, means * pages * page);
  return minimum / static_cast<double>(pages);
}

}  // namespace nearfield::forecast

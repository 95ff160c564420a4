// The common parts of the halo library's benches: timing in rounds, private memory, results as lines of JSON.
#pragma once

#include <mpi.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nearfield/halo.hpp"

namespace bench {

inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Starts MPI on the core that BENCH_CPUS ("0,1") has for this rank.
inline void begin(int& argc, char**& argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const char* list = std::getenv("BENCH_CPUS");
  for (int i = 0; list && i < rank; ++i)
    if ((list = std::strchr(list, ','))) ++list;
  if (!list) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(std::atoi(list)), &set);
  sched_setaffinity(0, sizeof set, &set);
}

/// Anonymous memory on huge pages, zeroed, touched.
class Private {
 public:
  explicit Private(std::size_t bytes) : bytes_((bytes + 2 * huge) / huge * huge) {
    auto* room = static_cast<std::byte*>(
        mmap(nullptr, bytes_ + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    room_ = room;
    data_ = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(room) + huge - 1) / huge * huge);
    madvise(data_, bytes_, MADV_HUGEPAGE);
    std::fill(data_, data_ + bytes_, std::byte{0});
  }
  ~Private() { munmap(room_, bytes_ + huge); }
  Private(const Private&) = delete;
  Private& operator=(const Private&) = delete;
  std::byte* data() const { return data_; }

 private:
  static constexpr std::size_t huge = 2 << 20;
  std::size_t bytes_;
  std::byte* room_;
  std::byte* data_;
};

/// One way to do the same: step() is one iteration, collective over the ranks unless `alone`.
struct Way {
  std::string name;
  std::function<void()> step;
};

/// Runs all ways in turn, `rounds` times; in each round enough iterations to last `least_s`. Returns, per way, the time
/// of an iteration of each round in ns: the slowest rank's.
inline std::vector<std::vector<double>> in_turns(std::vector<Way>& ways, int rounds, double least_s) {
  std::vector<int> counts;
  for (auto& way : ways) {  // also warms up
    for (int i = 0; i < 3; ++i) way.step();
    double least = 1e9;
    for (int i = 0; i < 3; ++i) {
      const double start = seconds();
      way.step();
      least = std::min(least, seconds() - start);
    }
    int count = static_cast<int>(std::clamp(least_s / least, 4.0, 20000.0));
    MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
    counts.push_back(count);
  }
  std::vector<std::vector<double>> times(ways.size());
  for (int round = 0; round < rounds; ++round)
    for (std::size_t w = 0; w < ways.size(); ++w) {
      MPI_Barrier(MPI_COMM_WORLD);
      ways[w].step();  // the caches are another way's
      ways[w].step();
      MPI_Barrier(MPI_COMM_WORLD);
      const double start = seconds();
      for (int i = 0; i < counts[w]; ++i) ways[w].step();
      double time = (seconds() - start) / counts[w] * 1e9;
      MPI_Allreduce(MPI_IN_PLACE, &time, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
      times[w].push_back(time);
    }
  return times;
}

/// {"bench": ..., "parameters": {...}, "ns": {"way": [per round]}} from rank 0.
inline void report(const std::string& name, const std::vector<std::pair<std::string, double>>& parameters,
                   const std::vector<Way>& ways, const std::vector<std::vector<double>>& times) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0) return;
  std::printf("{\"bench\": \"%s\"", name.c_str());
  for (const auto& [key, value] : parameters) std::printf(", \"%s\": %.10g", key.c_str(), value);
  std::printf(", \"ns\": {");
  for (std::size_t w = 0; w < ways.size(); ++w) {
    std::printf("%s\"%s\": [", w ? ", " : "", ways[w].name.c_str());
    for (std::size_t i = 0; i < times[w].size(); ++i) std::printf("%s%.5g", i ? "," : "", times[w][i]);
    std::printf("]");
  }
  std::printf("}}\n");
  std::fflush(stdout);
}

}  // namespace bench

// Measures algorithms of collectives against each other, for `nearfield tune --collectives`.
//
//   mpirun -n RANKS nearfield-collectives CPU,CPU... OPERATION:BYTES:ALGORITHM,ALGORITHM... ...
//
// Runs with libnearfield_collectives.so preloaded, which lets it choose the algorithm from call to call: all are measured
// in one process on the same cores, in turn, milliseconds apart. Rank i runs on the i-th CPU of the list, on whichever
// node it is.
//
// A sample is the maximum over ranks of the mean time of the calls of a batch; a call is timed by itself on each rank, so
// that a rank which arrives early measures how long it waits. Before each call, and outside the timed part, each rank
// rewrites what it sends. In half of the batches of short calls each rank arrives late by a random time, up to that of a
// call or 5 us, as ranks of a real program do.
//
// Prints JSON lines: {"latency_ns": L}, the core-to-core latency between rank 0 and the next rank of its node, at the begin and at the end, and
// {"operation": O, "bytes": B, "arrival": "together" or "late", "latency_ns": L, "samples": {ALGORITHM: [ns, ...], ...}}.
#include <dlfcn.h>
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/clock.hpp"

namespace {

using nearfield::now;
using Doubles = std::vector<double>;

constexpr int root = 0;
constexpr double batch_ns = 200e3;                // of calls, without what is between them
constexpr int max_batches = 6, min_batches = 3;   // of one algorithm and arrival
constexpr double longest_delay_ns = 5e3;          // of a rank that arrives late
constexpr std::size_t max_late_bytes = 64 << 10;  // longer calls take longer than ranks differ in their arrival
constexpr std::size_t max_long_bytes = 1 << 20;   // longer ones have the least number of batches
constexpr int latency_batches = 20, round_trips = 100;

int rank_ = 0, ranks_ = 0;
double ticks_per_ns = 1;

[[noreturn]] void fail(const std::string& problem) {
  std::fprintf(stderr, "nearfield-collectives: rank %d: %s\n", rank_, problem.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::exit(1);
}

double ns_since(nearfield::Ticks begin) { return static_cast<double>(now() - begin) / ticks_per_ns; }

void spin_ns(double ns) {
  const nearfield::Ticks begin = now();
  while (ns_since(begin) < ns) {
  }
}

// ---- operations

struct Buffers {
  Doubles send, receive;
  int count;  // doubles of the vector, or of one rank's block
};

struct Operation {
  const char* name;
  bool sends_blocks, receives_blocks;  // whether the buffer has a block for each rank
  void (*call)(Buffers&);
};

constexpr Operation all_operations[] = {
    {"barrier", false, false, [](Buffers&) { MPI_Barrier(MPI_COMM_WORLD); }},
    {"bcast", false, false,
     [](Buffers& b) {
       MPI_Bcast((rank_ == root ? b.send : b.receive).data(), b.count, MPI_DOUBLE, root, MPI_COMM_WORLD);
     }},
    {"gather", false, true,
     [](Buffers& b) {
       MPI_Gather(b.send.data(), b.count, MPI_DOUBLE, b.receive.data(), b.count, MPI_DOUBLE, root, MPI_COMM_WORLD);
     }},
    {"scatter", true, false,
     [](Buffers& b) {
       MPI_Scatter(b.send.data(), b.count, MPI_DOUBLE, b.receive.data(), b.count, MPI_DOUBLE, root, MPI_COMM_WORLD);
     }},
    {"reduce", false, false,
     [](Buffers& b) {
       MPI_Reduce(b.send.data(), b.receive.data(), b.count, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD);
     }},
    {"allgather", false, true,
     [](Buffers& b) {
       MPI_Allgather(b.send.data(), b.count, MPI_DOUBLE, b.receive.data(), b.count, MPI_DOUBLE, MPI_COMM_WORLD);
     }},
    {"alltoall", true, true,
     [](Buffers& b) {
       MPI_Alltoall(b.send.data(), b.count, MPI_DOUBLE, b.receive.data(), b.count, MPI_DOUBLE, MPI_COMM_WORLD);
     }},
    {"allreduce", false, false,
     [](Buffers& b) { MPI_Allreduce(b.send.data(), b.receive.data(), b.count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }},
    {"reduce_scatter", false, false,
     [](Buffers& b) {
       // The length of this operation is that of the whole vector.
       std::vector<int> counts(static_cast<std::size_t>(ranks_), b.count / ranks_);
       counts[0] += b.count % ranks_;
       MPI_Reduce_scatter(b.send.data(), b.receive.data(), counts.data(), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
     }},
    {"scan", false, false,
     [](Buffers& b) { MPI_Scan(b.send.data(), b.receive.data(), b.count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }},
};

const Operation& find_operation(const std::string& name) {
  for (const Operation& one : all_operations)
    if (name == one.name) return one;
  fail("no operation is called '" + name + "'");
}

// ---- core-to-core latency

struct Flags {
  alignas(128) std::atomic<std::uint64_t> request;  // 128: prefetchers of the adjacent line must not couple the two
  alignas(128) std::atomic<std::uint64_t> reply;
};

class LatencyGauge {
 public:
  LatencyGauge() {
    MPI_Comm node;
    int ranks_on_node = 0, first_rank = rank_;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &ranks_on_node);
    MPI_Comm_rank(node, &rank_on_node_);
    MPI_Bcast(&first_rank, 1, MPI_INT, 0, node);
    void* base = nullptr;
    MPI_Aint bytes = rank_on_node_ == 0 ? 2 * sizeof(Flags) : 0;
    int unit = 0;
    MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, node, &base, &window_);
    MPI_Win_shared_query(window_, 0, &bytes, &unit, &base);
    const auto address = reinterpret_cast<std::uintptr_t>(base);
    flags_ = reinterpret_cast<Flags*>((address + sizeof(Flags) - 1) / sizeof(Flags) * sizeof(Flags));
    if (rank_on_node_ == 0) flags_->request = flags_->reply = 0;
    takes_part_ = first_rank == 0 && rank_on_node_ < 2 && ranks_on_node > 1;
    MPI_Comm_free(&node);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  LatencyGauge(const LatencyGauge&) = delete;
  LatencyGauge& operator=(const LatencyGauge&) = delete;
  ~LatencyGauge() { MPI_Win_free(&window_); }

  // Returns half of a round trip between rank 0 and the next rank of its node, on these two: the minimum over batches of
  // the mean. Returns 0 on the others, or if there is no such rank.
  double measure_ns() {
    double best = takes_part_ ? 1e18 : 0;
    for (int batch = 0; batch < latency_batches && takes_part_; ++batch) {
      const nearfield::Ticks begin = now();
      for (int i = 0; i < round_trips; ++i) {
        ++turn_;
        if (rank_on_node_ == 0) flags_->request.store(turn_, std::memory_order_release);
        auto& awaited = rank_on_node_ == 0 ? flags_->reply : flags_->request;
        while (awaited.load(std::memory_order_acquire) < turn_) {
        }
        if (rank_on_node_ == 1) flags_->reply.store(turn_, std::memory_order_release);
      }
      best = std::min(best, ns_since(begin) / round_trips / 2);
    }
    return best;
  }

 private:
  MPI_Win window_ = MPI_WIN_NULL;
  Flags* flags_ = nullptr;
  int rank_on_node_ = 0;
  bool takes_part_ = false;
  std::uint64_t turn_ = 0;
};

// ---- measuring

using Override = bool(const char*, const char*);

class Cell {
 public:
  Cell(const Operation& operation, std::size_t bytes, std::vector<std::string> algorithms, Override* override)
      : operation_(operation), bytes_(bytes), algorithms_(std::move(algorithms)), override_(override) {
    const auto count = bytes / sizeof(double), ranks = static_cast<std::size_t>(ranks_);
    buffers_.count = static_cast<int>(count);
    buffers_.send.resize(count * (operation.sends_blocks ? ranks : 1));
    buffers_.receive.resize(count * (operation.receives_blocks ? ranks : 1));
  }

  void measure(LatencyGauge& gauge) {
    const double latency_ns = gauge.measure_ns();
    std::vector<int> calls;
    double longest_ns = 0;
    for (const std::string& algorithm : algorithms_) {
      choose(algorithm);
      const double ns = estimate_ns();
      longest_ns = std::max(longest_ns, ns);
      calls.push_back(std::clamp(static_cast<int>(batch_ns / ns), 1, 1000));
    }
    run(false, 0, calls, latency_ns);
    if (bytes_ <= max_late_bytes && bytes_ > 0) run(true, std::min(longest_ns, longest_delay_ns), calls, latency_ns);
    choose(algorithms_.front());
  }

 private:
  void choose(const std::string& algorithm) {
    if (!override_(operation_.name, algorithm.c_str())) fail("no algorithm is called '" + algorithm + "'");
  }

  double time_calls(int calls, double max_delay_ns) {
    double total = 0;
    for (int i = 0; i < calls; ++i) {
      std::fill(buffers_.send.begin(), buffers_.send.end(), static_cast<double>(++number_ % 1024));
      if (max_delay_ns > 0) spin_ns(max_delay_ns * static_cast<double>(rand_r(&seed_) % 1024) / 1024);
      const nearfield::Ticks begin = now();
      operation_.call(buffers_);
      total += ns_since(begin);
    }
    return total / calls;
  }

  // Returns about how long a call takes; the same number on all ranks.
  double estimate_ns() {
    time_calls(2, 0);
    double ns = time_calls(2, 0), max_ns = 0;
    PMPI_Allreduce(&ns, &max_ns, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return std::max(max_ns, 50.0);
  }

  void run(bool is_late, double max_delay_ns, const std::vector<int>& calls, double latency_ns) {
    const int batches = bytes_ > max_long_bytes ? min_batches : max_batches;
    std::vector<Doubles> samples(algorithms_.size());
    for (int batch = 0; batch < batches; ++batch)
      for (std::size_t turn = 0; turn < algorithms_.size(); ++turn) {
        const std::size_t i = batch % 2 ? algorithms_.size() - 1 - turn : turn;
        choose(algorithms_[i]);
        time_calls(1, max_delay_ns);
        samples[i].push_back(time_calls(calls[i], max_delay_ns));
      }
    for (Doubles& of_one : samples) {
      const Doubles own = of_one;
      PMPI_Allreduce(own.data(), of_one.data(), batches, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    if (rank_ == 0) print(is_late, latency_ns, samples);
  }

  void print(bool is_late, double latency_ns, const std::vector<Doubles>& samples) const {
    std::printf(R"({"operation": "%s", "bytes": %zu, "arrival": "%s", "latency_ns": %.1f, "samples": {)",
                operation_.name, bytes_, is_late ? "late" : "together", latency_ns);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      std::printf(R"(%s"%s": [)", i ? ", " : "", algorithms_[i].c_str());
      for (std::size_t k = 0; k < samples[i].size(); ++k) std::printf("%s%.1f", k ? ", " : "", samples[i][k]);
      std::printf("]");
    }
    std::printf("}}\n");
    std::fflush(stdout);
  }

  const Operation& operation_;
  std::size_t bytes_;
  std::vector<std::string> algorithms_;
  Override* override_;
  Buffers buffers_;
  unsigned seed_ = static_cast<unsigned>(rank_) + 1;
  std::uint64_t number_ = 0;
};

// ---- start

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

void bind_to(const std::string& cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(std::atoi(cpu.c_str()), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) fail("cannot run on CPU " + cpu);
}

// The collectives of MPI_COMM_WORLD become direct after a few calls, if they can.
void require_direct() {
  const auto count =
      reinterpret_cast<unsigned long long (*)()>(dlsym(RTLD_DEFAULT, "nearfield_collectives_count_direct"));
  for (int i = 0; i < 8; ++i) MPI_Barrier(MPI_COMM_WORLD);
  if (!count || count() == 0) fail("the ranks cannot share memory, so all collectives are left to the MPI library");
}

void measure_cells(const std::vector<std::string>& cells, Override* override) {
  LatencyGauge gauge;
  for (const std::string& cell : cells) {
    const std::vector<std::string> parts = split(cell, ':');
    if (parts.size() != 3) fail("not understood: " + cell);
    Cell(find_operation(parts[0]), std::strtoull(parts[1].c_str(), nullptr, 10), split(parts[2], ','), override)
        .measure(gauge);
  }
  const double latency_ns = gauge.measure_ns();
  if (rank_ == 0) std::printf("{\"latency_ns\": %.1f}\n", latency_ns);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  if (argc < 3) fail("usage: nearfield-collectives CPU,... OPERATION:BYTES:ALGORITHM,... ...");
  const std::vector<std::string> cpus = split(argv[1], ',');
  if (static_cast<int>(cpus.size()) != ranks_ || ranks_ < 2) fail("one CPU for each rank, and two of them at least");
  bind_to(cpus[static_cast<std::size_t>(rank_)]);
  ticks_per_ns = nearfield::measure_ticks_per_ns(0.01);
  const auto override = reinterpret_cast<Override*>(dlsym(RTLD_DEFAULT, "nearfield_collectives_override"));
  if (!override) fail("libnearfield_collectives.so is not preloaded");
  require_direct();
  measure_cells({argv + 2, argv + argc}, override);
  MPI_Finalize();
  return 0;
}

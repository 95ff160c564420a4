// Compares the latency of different algorithms of the same collective, for `nearfield tune --collectives`.
//
//   mpirun -n RANKS nearfield-collectives CPU,CPU... [NATIVE] OPERATION:BYTES:ALGORITHM,ALGORITHM...[:CHECK] ...
//   mpirun -n 1 nearfield-collectives variables PREFIX
//
// This program runs with libnearfield_collectives.so preloaded, which allows the program to choose the algorithm from
// call to call: all algorithms are measured in one process on the same cores, in turn, milliseconds apart. Rank i runs
// on the i-th CPU of the list, on the node on which the launcher has placed the rank.
//
// With NATIVE, the algorithms are the MPI's own, and nothing is preloaded (measure_choice.hpp). NATIVE is
// `native-calls` if this MPI reads the variables that select algorithms in each call, and `native-communicators` if it
// reads them when a communicator is created. CHECK is `check` or `check-any-call`: before an algorithm is measured, its
// results are compared with the expected results (measure_check.hpp), and an algorithm with wrong results is not
// measured. `variables` prints the control variables (MPI_T) whose names begin with PREFIX.
//
// A sample is the maximum over ranks of the mean latency of the calls of a batch. Each rank times each call on its own,
// so the latency on a rank that arrives early includes its wait for the others. Before each call, and outside the timed
// part, each rank rewrites its send buffer. In half of the batches of short calls each rank arrives late by a random
// delay of at most the latency of a call or 5 us, as ranks of a real program do.
//
// Prints JSON lines: {"latency_ns": L} at the end, where L is the core-to-core latency between rank 0 and the next rank
// of its node, and {"operation": O, "bytes": B, "arrival": "together" or "late", "latency_ns": L, "samples":
// {ALGORITHM: [ns, ...], ...}}. With CHECK also {"operation": O, "bytes": B, "trying": ALGORITHM} before each check,
// the same line with an empty ALGORITHM after all checks of the operation, and {"operation": O, "bytes": B,
// "algorithm": ALGORITHM, "refused": REASON} for each algorithm that is left out.
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
#include "base/node_watch.hpp"
#include "measure_check.hpp"
#include "measure_choice.hpp"
#include "measure_operations.hpp"

namespace {

using nearfield::now;
using nearfield::collectives::AlgorithmSelector;
using nearfield::collectives::Doubles;
using nearfield::collectives::MeasuredOperation;
using nearfield::collectives::OperationBuffers;
using nearfield::collectives::split_text;

constexpr double target_batch_ns = 200e3;        // time in the calls of a batch, without the time between calls
constexpr int max_batches = 6, min_batches = 3;  // batches per algorithm and kind of arrival
constexpr double max_arrival_delay_ns = 5e3;     // of a late arrival
constexpr std::size_t max_bytes_with_late_arrival = 64 << 10;  // longer calls take longer than the spread of arrivals
constexpr std::size_t max_bytes_with_all_batches = 1 << 20;    // longer vectors are measured in min_batches only
constexpr int num_latency_batches = 20, num_round_trips = 100;

int rank_ = 0, num_ranks_ = 0;
double ticks_per_ns = 1;

[[noreturn]] void abort_job(const std::string& problem) {
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

// ---- core-to-core latency

struct PingPongFlags {
  alignas(128) std::atomic<std::uint64_t> request;  // 128: not in adjacent lines, which a core prefetches in pairs
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
    MPI_Aint bytes = rank_on_node_ == 0 ? 2 * sizeof(PingPongFlags) : 0;
    int unit = 0;
    MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, node, &base, &window_);
    MPI_Win_shared_query(window_, 0, &bytes, &unit, &base);
    const auto address = reinterpret_cast<std::uintptr_t>(base);
    flags_ = reinterpret_cast<PingPongFlags*>((address + sizeof(PingPongFlags) - 1) / sizeof(PingPongFlags) *
                                              sizeof(PingPongFlags));
    if (rank_on_node_ == 0) flags_->request = flags_->reply = 0;
    is_participant_ = first_rank == 0 && rank_on_node_ < 2 && ranks_on_node > 1;
    MPI_Comm_free(&node);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  LatencyGauge(const LatencyGauge&) = delete;
  LatencyGauge& operator=(const LatencyGauge&) = delete;
  ~LatencyGauge() { MPI_Win_free(&window_); }

  // Returns half of the round-trip time, in ns, between rank 0 and the next rank of the same node, as the minimum over
  // batches of the mean. Returns 0 on all other ranks, or if rank 0 is alone on its node.
  double measure_latency_ns() {
    double best = is_participant_ ? 1e18 : 0;
    for (int batch = 0; batch < num_latency_batches && is_participant_; ++batch) {
      const nearfield::Ticks begin = now();
      for (int i = 0; i < num_round_trips; ++i) {
        ++last_turn_;
        if (rank_on_node_ == 0) flags_->request.store(last_turn_, std::memory_order_release);
        auto& awaited = rank_on_node_ == 0 ? flags_->reply : flags_->request;
        while (awaited.load(std::memory_order_acquire) < last_turn_) {
        }
        if (rank_on_node_ == 1) flags_->reply.store(last_turn_, std::memory_order_release);
      }
      best = std::min(best, ns_since(begin) / num_round_trips / 2);
    }
    return best;
  }

 private:
  MPI_Win window_ = MPI_WIN_NULL;
  PingPongFlags* flags_ = nullptr;
  int rank_on_node_ = 0;
  bool is_participant_ = false;
  std::uint64_t last_turn_ = 0;
};

// ---- measurement

// Returns the name of an algorithm without the "@VARIABLE=VALUE..." that selects it.
std::string name_without_variables(const std::string& algorithm) { return algorithm.substr(0, algorithm.find('@')); }

class MeasuredCase {
 public:
  MeasuredCase(const MeasuredOperation& operation, std::size_t bytes, std::vector<std::string> algorithms,
               AlgorithmSelector& selector)
      : operation_(operation), bytes_(bytes), algorithms_(std::move(algorithms)), selector_(selector) {
    const auto count = bytes / sizeof(double), ranks = static_cast<std::size_t>(num_ranks_);
    buffers_.count = static_cast<int>(count);
    buffers_.rank = rank_;
    buffers_.ranks = num_ranks_;
    buffers_.send.resize(count * (operation.sends_blocks ? ranks : 1));
    buffers_.receive.resize(count * (operation.receives_blocks ? ranks : 1));
  }

  // Checks the results of all algorithms, and removes the algorithms whose results are wrong on any rank.
  void drop_wrong_algorithms(bool checks_any_call) {
    std::vector<std::string> correct_algorithms;
    for (const std::string& algorithm : algorithms_) {
      print_trial(name_without_variables(algorithm));
      select_algorithm(algorithm);
      const std::string problem =
          find_first_problem(find_wrong_result(operation_, selector_.comm(), bytes_, checks_any_call));
      if (problem.empty())
        correct_algorithms.push_back(algorithm);
      else if (rank_ == 0)
        std::printf(R"({"operation": "%s", "bytes": %zu, "algorithm": "%s", "refused": "%s"})"
                    "\n",
                    operation_.name, bytes_, name_without_variables(algorithm).c_str(), problem.c_str());
    }
    algorithms_ = correct_algorithms;
    print_trial("");
  }

  void measure_algorithms(LatencyGauge& gauge) {
    if (algorithms_.empty()) return;
    const double latency_ns = gauge.measure_latency_ns();
    std::vector<int> calls;
    double longest_ns = 0;
    for (const std::string& algorithm : algorithms_) {
      select_algorithm(algorithm);
      const double ns = estimate_call_ns();
      longest_ns = std::max(longest_ns, ns);
      calls.push_back(std::clamp(static_cast<int>(target_batch_ns / ns), 1, 1000));
    }
    measure_batches(false, 0, calls, latency_ns);
    if (bytes_ <= max_bytes_with_late_arrival && bytes_ > 0)
      measure_batches(true, std::min(longest_ns, max_arrival_delay_ns), calls, latency_ns);
    select_algorithm(algorithms_.front());
    selector_.restore_default();
  }

 private:
  void select_algorithm(const std::string& algorithm) {
    if (!selector_.select_algorithm(operation_.name, algorithm))
      abort_job("no algorithm is called '" + algorithm + "'");
    buffers_.comm = selector_.comm();
  }

  void print_trial(const std::string& algorithm) const {
    if (rank_ != 0) return;
    std::printf(R"({"operation": "%s", "bytes": %zu, "trying": "%s"})"
                "\n",
                operation_.name, bytes_, algorithm.c_str());
    std::fflush(stdout);
  }

  // Returns the problem reported by the lowest rank that has one, or an empty string; the same text on all ranks.
  // Replaces characters that JSON would need to escape by spaces.
  std::string find_first_problem(const std::string& own_problem) {
    selector_.restore_default();
    int candidate_rank = own_problem.empty() ? num_ranks_ : rank_, first_rank = num_ranks_;
    PMPI_Allreduce(&candidate_rank, &first_rank, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first_rank == num_ranks_) return "";
    char text[200] = "";
    std::snprintf(text, sizeof text, "%s", own_problem.c_str());
    PMPI_Bcast(text, sizeof text, MPI_CHAR, first_rank, MPI_COMM_WORLD);
    std::string sanitized = text;
    std::replace_if(sanitized.begin(), sanitized.end(), [](char c) { return c == '"' || c == '\\' || c < 32; }, ' ');
    return sanitized;
  }

  double time_calls(int calls, double max_delay_ns) {
    double total = 0;
    for (int i = 0; i < calls; ++i) {
      std::fill(buffers_.send.begin(), buffers_.send.end(), static_cast<double>(++num_calls_ % 1024));
      if (max_delay_ns > 0) spin_ns(max_delay_ns * static_cast<double>(rand_r(&seed_) % 1024) / 1024);
      const nearfield::Ticks begin = now();
      if (operation_.call(buffers_) != MPI_SUCCESS)
        abort_job("an algorithm of " + std::string(operation_.name) + " failed");
      total += ns_since(begin);
    }
    return total / calls;
  }

  // Returns an estimate of the latency of a call in ns, at least 50; the same number on all ranks.
  double estimate_call_ns() {
    time_calls(2, 0);
    double ns = time_calls(2, 0), max_ns = 0;
    selector_.restore_default();
    PMPI_Allreduce(&ns, &max_ns, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return std::max(max_ns, 50.0);
  }

  void measure_batches(bool is_late, double max_delay_ns, const std::vector<int>& calls, double latency_ns) {
    const int num_batches = bytes_ > max_bytes_with_all_batches ? min_batches : max_batches;
    std::vector<Doubles> samples(algorithms_.size());
    for (int batch = 0; batch < num_batches; ++batch)
      for (std::size_t position = 0; position < algorithms_.size(); ++position) {
        const std::size_t i = batch % 2 ? algorithms_.size() - 1 - position : position;
        select_algorithm(algorithms_[i]);
        time_calls(1, max_delay_ns);
        samples[i].push_back(time_calls(calls[i], max_delay_ns));
      }
    selector_.restore_default();
    for (Doubles& algorithm_samples : samples) {
      const Doubles own_samples = algorithm_samples;
      PMPI_Allreduce(own_samples.data(), algorithm_samples.data(), num_batches, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    if (rank_ == 0) print_samples(is_late, latency_ns, samples);
  }

  void print_samples(bool is_late, double latency_ns, const std::vector<Doubles>& samples) const {
    std::printf(R"({"operation": "%s", "bytes": %zu, "arrival": "%s", "latency_ns": %.1f, "samples": {)",
                operation_.name, bytes_, is_late ? "late" : "together", latency_ns);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      std::printf(R"(%s"%s": [)", i ? ", " : "", name_without_variables(algorithms_[i]).c_str());
      for (std::size_t k = 0; k < samples[i].size(); ++k) std::printf("%s%.1f", k ? ", " : "", samples[i][k]);
      std::printf("]");
    }
    std::printf("}}\n");
    std::fflush(stdout);
  }

  const MeasuredOperation& operation_;
  std::size_t bytes_;
  std::vector<std::string> algorithms_;
  AlgorithmSelector& selector_;
  OperationBuffers buffers_;
  unsigned seed_ = static_cast<unsigned>(rank_) + 1;
  std::uint64_t num_calls_ = 0;
};

// ---- start

void bind_to_cpu(const std::string& cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(std::atoi(cpu.c_str()), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) abort_job("cannot run on CPU " + cpu);
}

// Makes a few calls on MPI_COMM_WORLD, after which its collectives become direct if the ranks can share memory. Aborts
// the job if no call was direct.
void require_direct_collectives() {
  const auto count =
      reinterpret_cast<unsigned long long (*)()>(dlsym(RTLD_DEFAULT, "nearfield_collectives_count_direct"));
  for (int i = 0; i < 8; ++i) MPI_Barrier(MPI_COMM_WORLD);
  if (!count || count() == 0)
    abort_job("the ranks cannot share memory, so all collectives are left to the MPI library");
}

void measure_cases(const std::vector<std::string>& case_texts, AlgorithmSelector& selector) {
  LatencyGauge gauge;
  for (const std::string& case_text : case_texts) {
    const std::vector<std::string> parts = split_text(case_text, ':');
    if (parts.size() < 3 || parts.size() > 4) abort_job("not understood: " + case_text);
    const MeasuredOperation* operation = nearfield::collectives::find_operation(parts[0]);
    if (!operation) abort_job("no operation is called '" + parts[0] + "'");
    MeasuredCase measured_case(*operation, std::strtoull(parts[1].c_str(), nullptr, 10), split_text(parts[2], ','),
                               selector);
    if (parts.size() == 4) measured_case.drop_wrong_algorithms(parts[3] == "check-any-call");
    measured_case.measure_algorithms(gauge);
  }
  const double latency_ns = gauge.measure_latency_ns();
  if (rank_ == 0) std::printf("{\"latency_ns\": %.1f}\n", latency_ns);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const auto watch = nearfield::join_launcher_watch();  // before MPI_Init, which waits for all nodes
  int provided = 0;
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &num_ranks_);
  if (argc < 3) abort_job("usage: nearfield-collectives CPU,... [NATIVE] OPERATION:BYTES:ALGORITHM,... ...");
  if (argv[1] == std::string("variables")) {
    if (rank_ == 0) nearfield::collectives::print_control_variables(argv[2]);
    MPI_Finalize();
    return 0;
  }
  const std::vector<std::string> cpus = split_text(argv[1], ',');
  if (static_cast<int>(cpus.size()) != num_ranks_ || num_ranks_ < 2)
    abort_job("one CPU for each rank, and two of them at least");
  bind_to_cpu(cpus[static_cast<std::size_t>(rank_)]);
  ticks_per_ns = nearfield::measure_ticks_per_ns(0.01);
  const std::string mode = argv[2];
  const bool is_native = mode == "native-calls" || mode == "native-communicators";
  auto selector = is_native ? nearfield::collectives::make_native_selector(mode == "native-communicators")
                            : nearfield::collectives::make_preloaded_selector();
  if (!selector) abort_job("libnearfield_collectives.so is not preloaded");
  if (!is_native) require_direct_collectives();
  measure_cases({argv + 2 + is_native, argv + argc}, *selector);
  selector.reset();
  MPI_Finalize();
  return 0;
}

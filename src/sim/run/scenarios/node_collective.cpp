// The collectives inside a node that `nearfield run --collectives` preloads, on a simulated machine: the code of
// src/collectives runs on one rank per core, rank i on core i. Before each call, and outside the measured time, each
// rank rewrites what it sends; all ranks begin the call together. Times are the mean of the calls after the first ones,
// in which memory is touched for the first time.
//
// Not modeled: the copies that an owner of memory makes for other ranks while it waits, and all work of cores except
// loads and stores. No system calls are needed, as if all buffers were in the shared heap.
#include <sys/mman.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "collectives/doubling.hpp"
#include "collectives/grouped.hpp"
#include "machine/machine.hpp"
#include "scenario/collective.hpp"
#include "sim/run/scenario.hpp"
#include "sim/run/shared_memory/node_ranks.hpp"

namespace nearfield::sim {
namespace {

using collectives::Bytes;
using collectives::Groups;
using RankExchange = collectives::Exchange<SimulatedPort>;

constexpr int num_warmup_calls = 1, default_calls = 2;
constexpr std::int64_t max_bytes = 16 << 10;  // by default: longer vectors take the host minutes on many cores
constexpr std::string_view operations[] = {"barrier",   "bcast",     "gather",  "reduce",
                                           "allreduce", "allgather", "alltoall"};

const ScenarioInfo node_collective_info{
    "node-collective",
    "Collectives inside a node through shared memory, by several algorithms",
    Ranks::all,
    {{"operation", "barrier, bcast, gather, reduce, allreduce, allgather, alltoall"},
     {"algorithm", "flat; of some operations whole, slices, grouped (by last-level cache) or doubling"},
     {"size_bytes", "bcast, reduce, allreduce: of the vector; others: what one rank contributes (to each other rank)"},
     {"ranks", "how many take part"}},
    {{"min_time", "ns", Combine::slowest, "until the slowest rank returned, if fetches overlap as far as cores allow"},
     {"max_time", "ns", Combine::slowest, "the same if each core, and each line's owner, serves one fetch at a time"}},
};

// Memory of the host, whose pages take no physical memory until they are written.
class HostMemory {
 public:
  explicit HostMemory(std::size_t bytes) : bytes_(std::max<std::size_t>(bytes, 1)) {
    void* const mapped =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    begin_ = static_cast<Bytes*>(mapped);
  }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory() { munmap(begin_, bytes_); }
  Bytes* data() const { return begin_; }

 private:
  std::size_t bytes_;
  Bytes* begin_;
};

std::vector<std::string> algorithms_of(const std::string& operation, bool has_groups) {
  std::vector<std::string> names{"flat"};
  if (operation == "allreduce") names = {"whole", "slices"};
  if (operation == "bcast") names.emplace_back("slices");
  const bool may_be_grouped = operation == "allreduce" || operation == "bcast" || operation == "barrier";
  if (has_groups && may_be_grouped) names.emplace_back("grouped");
  if (operation != "bcast" && operation != "gather") names.emplace_back("doubling");
  return names;
}

// Returns how many cores share a last-level cache.
int cores_per_group(const Machine& machine) { return machine.caches.empty() ? 1 : machine.caches.back().shared_by; }

bool has_groups(const Machine& machine) {
  return cores_per_group(machine) > 1 && cores_per_group(machine) < machine.cores;
}

// Returns whether the algorithm is simulated for this message length. Algorithm `whole`, in which each rank reads the
// vectors of all ranks, is simulated for long vectors with at most 16 ranks, since more ranks would take minutes.
bool is_length_simulated(const std::string& operation, const std::string& algorithm, std::int64_t bytes,
                         std::int64_t ranks) {
  const auto length = static_cast<std::size_t>(bytes);
  if (algorithm == "doubling") {
    const bool has_blocks = operation == "allgather" || operation == "alltoall";
    return length <=
           (has_blocks ? collectives::max_doubling_block_bytes(static_cast<int>(ranks)) : collectives::slot_bytes);
  }
  return algorithm != "whole" || length <= collectives::slot_bytes || ranks <= 16;
}

// Throws std::invalid_argument if the parameters do not fit the machine or each other.
void check_parameters(const Machine& machine, const Parameters& parameters) {
  const std::string operation = word_parameter(parameters, "operation"),
                    algorithm = word_parameter(parameters, "algorithm");
  if (std::ranges::find(operations, operation) == std::end(operations))
    throw std::invalid_argument("no operation '" + operation + "' inside a node");
  const auto names = algorithms_of(operation, has_groups(machine));
  if (algorithm != "flat" && std::ranges::find(names, algorithm) == names.end())
    throw std::invalid_argument("no algorithm '" + algorithm + "' of " + operation + " on this machine");
  const std::int64_t ranks = number_parameter(parameters, "ranks"), bytes = number_parameter(parameters, "size_bytes");
  if (ranks < 2 || ranks > std::min(machine.cores, collectives::max_node_ranks))
    throw std::invalid_argument(std::to_string(ranks) + " ranks: from 2 to the machine's " +
                                std::to_string(machine.cores) + " cores, and at most " +
                                std::to_string(collectives::max_node_ranks));
  if (algorithm == "doubling" && !is_length_simulated(operation, algorithm, bytes, ranks))
    throw std::invalid_argument("algorithm 'doubling' of " + operation + " does not take " + std::to_string(bytes) +
                                " bytes with " + std::to_string(ranks) + " ranks: the data of a step must fit into " +
                                std::to_string(collectives::slot_bytes) + " bytes");
}

// The ranks of one case: their memory, and the collective that they call.
class CollectiveCalls {
 public:
  CollectiveCalls(const SimulationJob& job, FetchModel fetch_model)
      : CollectiveCalls(job.machine, job.parameters, job.options(), fetch_model) {}
  CollectiveCalls(const Machine& machine, const Parameters& parameters, const ClusterOptions& options,
                  FetchModel fetch_model)
      : node_(machine, {.memory_slowdown = options.memory_slowdown, .has_memory_effects = options.has_memory_effects}),
        operation_(word_parameter(parameters, "operation")),
        algorithm_(word_parameter(parameters, "algorithm")),
        bytes_(static_cast<std::size_t>(number_parameter(parameters, "size_bytes"))),
        num_ranks_(static_cast<std::size_t>(number_parameter(parameters, "ranks"))),
        groups_{cores_per_group(machine)},
        ranks_(node_, static_cast<int>(num_ranks_), groups_.size, fetch_model) {
    const bool sends_blocks = operation_ == "alltoall",
               gets_blocks = sends_blocks || operation_ == "allgather" || operation_ == "gather";
    for (std::size_t i = 0; i < num_ranks_; ++i) {
      ports_.push_back(std::make_unique<SimulatedPort>(ranks_, static_cast<int>(i)));
      host_memory_.push_back(std::make_unique<HostMemory>(sizeof(SimulatedPort::Box)));
      boxes_.push_back(new (host_memory_.back()->data()) SimulatedPort::Box{});
      host_memory_.push_back(std::make_unique<HostMemory>(sends_blocks ? bytes_ * num_ranks_ : bytes_));
      send_buffers_.push_back(host_memory_.back()->data());
      host_memory_.push_back(std::make_unique<HostMemory>(gets_blocks ? bytes_ * num_ranks_ : bytes_));
      receive_buffers_.push_back(host_memory_.back()->data());
    }
    for (std::size_t i = 0; i < num_ranks_; ++i)
      exchanges_.emplace_back(*ports_[i], boxes_.data(), static_cast<int>(num_ranks_), static_cast<int>(i));
    send_bytes_ = sends_blocks ? bytes_ * num_ranks_ : bytes_;
    // Each rank is the first to touch its own memory.
    ranks_.run([&](int rank) {
      const auto i = static_cast<std::size_t>(rank);
      ranks_.store(rank, boxes_[i], sizeof(SimulatedPort::Box));
      ranks_.store(rank, receive_buffers_[i], gets_blocks ? bytes_ * num_ranks_ : bytes_);
    });
  }

  // Returns the time of one call.
  ConfigClock run_call() {
    ranks_.run([&](int rank) { ranks_.store(rank, send_buffers_[static_cast<std::size_t>(rank)], send_bytes_); });
    return ranks_.run([&](int rank) { call_collective(rank); });
  }

 private:
  void call_collective(int rank) {
    const auto i = static_cast<std::size_t>(rank);
    RankExchange& exchange = exchanges_[i];
    Bytes *const send = send_buffers_[i], *const receive = receive_buffers_[i];
    const auto combine = [this, rank](void* out, const void* a, const void* b, std::size_t count) {
      ranks_.load(rank, a, count * sizeof(double));
      ranks_.load(rank, b, count * sizeof(double));
      ranks_.store(rank, out, count * sizeof(double));
    };
    const collectives::Reduction sum{bytes_ / sizeof(double), sizeof(double), combine};
    const bool is_grouped = algorithm_ == "grouped", in_slices = algorithm_ == "slices",
               is_doubling = algorithm_ == "doubling";
    if (operation_ == "barrier")
      return is_grouped    ? barrier_in_groups(exchange, groups_)
             : is_doubling ? barrier_by_dissemination(exchange)
                           : barrier(exchange);
    if (operation_ == "reduce")
      return is_doubling ? reduce_by_doubling(exchange, send, receive, sum, 0)
                         : reduce(exchange, send, receive, sum, 0);
    if (operation_ == "gather")
      return gather(exchange, send, rank == 0 ? 0 : bytes_, 0,
                    [&](int from) { return std::pair(receive + static_cast<std::size_t>(from) * bytes_, bytes_); });
    if (operation_ == "alltoall")
      return is_doubling ? alltoall_by_doubling(exchange, send, receive, bytes_)
                         : alltoall(exchange, send, receive, bytes_);
    if (operation_ == "allgather" && is_doubling) return allgather_by_doubling(exchange, send, receive, bytes_);
    if (operation_ == "allgather")
      return allgather(exchange, send, bytes_,
                       [&](int from) { return std::pair(receive + static_cast<std::size_t>(from) * bytes_, bytes_); });
    if (operation_ == "bcast") {
      Bytes* const data = rank == 0 ? send : receive;
      if (is_grouped) return bcast_in_groups(exchange, data, bytes_, 0, groups_);
      return in_slices ? bcast_in_slices(exchange, data, bytes_, 0) : bcast(exchange, data, bytes_, 0);
    }
    if (is_grouped) return allreduce_in_groups(exchange, send, receive, sum, groups_);
    if (is_doubling) return allreduce_by_doubling(exchange, send, receive, sum);
    if (algorithm_ == "whole") return allreduce_whole(exchange, send, receive, sum);
    return in_slices ? allreduce_in_slices(exchange, send, receive, sum) : allreduce(exchange, send, receive, sum);
  }

  Node node_;
  std::string operation_, algorithm_;
  std::size_t bytes_, num_ranks_, send_bytes_ = 0;
  Groups groups_;
  NodeRanks ranks_;
  std::vector<std::unique_ptr<HostMemory>> host_memory_;
  std::vector<std::unique_ptr<SimulatedPort>> ports_;
  std::vector<SimulatedPort::Box*> boxes_;
  std::vector<Bytes*> send_buffers_, receive_buffers_;
  std::vector<RankExchange> exchanges_;
};

std::vector<Result> simulate_node_collective(const SimulationJob& job) {
  check_parameters(job.machine, job.parameters);
  Results results(job.settings.memory_slowdown.size());
  for (const FetchModel fetch_model : {FetchModel::at_once, FetchModel::in_turn}) {
    CollectiveCalls calls(job, fetch_model);
    for (int i = 0; i < num_warmup_calls; ++i) calls.run_call();
    const int repetitions = job.settings.repetitions.value_or(default_calls);
    std::vector<std::vector<double>> times(job.settings.memory_slowdown.size());
    for (int i = 0; i < repetitions; ++i) {
      const ConfigClock time = calls.run_call();
      for (std::size_t speed = 0; speed < times.size(); ++speed)
        times[speed].push_back(time[0][static_cast<int>(speed)] / 1e3);
      if (job.progress_callback) job.progress_callback();
    }
    const char* const metric = fetch_model == FetchModel::at_once ? "min_time" : "max_time";
    for (std::size_t speed = 0; speed < times.size(); ++speed)
      results.add_mean(metric, "ns", 0, static_cast<int>(speed), times[speed]);
  }
  return results.entries;
}

std::vector<Parameters> node_collective_cases(const Machine& machine, const PairPlacement&,
                                              const CaseSelection& choice) {
  SizeChoice sizes = choice.sizes;
  sizes.max_message_bytes = max_bytes;
  const std::int64_t ranks = machine.cores;
  std::vector<Parameters> list;
  for (const std::string_view name : operations) {
    const std::string operation(name);
    for (const auto size : operation == "barrier" ? std::vector<std::int64_t>{0} : collective_sizes(sizes))
      for (const auto& algorithm : algorithms_of(operation, has_groups(machine)))
        if (is_length_simulated(operation, algorithm, size, ranks))
          list.push_back({{"operation", operation}, {"algorithm", algorithm}, {"size_bytes", size}, {"ranks", ranks}});
  }
  return list;
}

std::string unsupported_reason(const Machine& machine, const PairPlacement&) {
  if (machine.cores < 2) return "the machine has one core: a collective needs two";
  return machine.cores > collectives::max_node_ranks ? "the machine has more cores than these collectives take" : "";
}

}  // namespace

extern const ScenarioSpec node_collective_scenario;
const ScenarioSpec node_collective_scenario = {.info = node_collective_info,
                                               .unsupported_reason = unsupported_reason,
                                               .cases = node_collective_cases,
                                               .run = simulate_node_collective,
                                               .is_default = false,
                                               .repetitions = default_calls};

}  // namespace nearfield::sim

#include "sim/run/scenarios/workload.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "machine/machine.hpp"

namespace nearfield::sim {
namespace {

// A metric that is a count, and a function that returns its value in a repetition for one policy.
struct CountMetric {
  MetricInfo info;
  Count (*of)(const Repetition& repetition, const VariantOutcome& variant);
};

const std::vector<CountMetric>& count_metrics() {
  using R = Repetition;
  using V = VariantOutcome;
  static const std::vector<CountMetric> all{
      {{"nic_events", "count", Combine::root, "entries of event queues"},
       [](const R&, const V& v) { return v.nic.events; }},
      {{"network_messages", "count", Combine::root, "messages between nodes"},
       [](const R& r, const V&) { return Count{r.messages}; }},
      {{"network_bytes", "bytes", Combine::root, "what they carried"},
       [](const R& r, const V&) { return Count{r.network_bytes}; }},
      {{"engine_events", "count", Combine::root, "number of events that the simulator processed"},
       [](const R& r, const V&) { return Count{r.events}; }},
  };
  return all;
}

struct DramMetric {
  const char* name;
  const char* unit;
  const char* summary;
  Count DramCounts::* count;
};

constexpr DramMetric dram_metrics[] = {
    {"dram_reads", "count", "lines read for loads and stores; counts are of all nodes together", &DramCounts::reads},
    {"dram_writes", "count", "lines that caches wrote back", &DramCounts::writes},
    {"dram_prefetches", "count", "lines fetched ahead", &DramCounts::prefetches},
    {"dram_dma_reads", "count", "lines read by NICs", &DramCounts::dma_reads},
    {"dram_dma_writes", "count", "lines written by NICs", &DramCounts::dma_writes},
    {"dram_bytes", "bytes", "all traffic of DRAM", &DramCounts::bytes},
};

// A metric with a value per cache level. Counts of injected lines have no value for L1, because NICs inject only into
// L2 and L3.
struct CacheLevelMetric {
  const char* name;
  const char* summary;
  std::size_t first_level;  // counted from 1
  Count LevelCounts::* count;
};

constexpr CacheLevelMetric cache_level_metrics[] = {
    {"hits", "hits of cache level ", 1, &LevelCounts::hits},
    {"misses", "misses of cache level ", 1, &LevelCounts::misses},
    {"device_hits", "granules of memory that NICs read out of cache level ", 2, &LevelCounts::device_hits},
    {"injected", "lines that NICs put into cache level ", 2, &LevelCounts::injections},
    {"injected_unused", "lines put by NICs and lost before they were used, of cache level ", 2,
     &LevelCounts::injected_unused},
    {"victims_missed", "lines that made room for lines of NICs and were missed again, of cache level ", 2,
     &LevelCounts::victims_missed},
};

// Returns a name such as "l2_misses".
std::string metric_of_level(std::size_t level, const char* name) {
  std::string metric = "l";
  return metric.append(std::to_string(level)).append("_").append(name);
}

template <class Item, class Number>
std::vector<double> numbers_of_items(const std::vector<Item>& items, Number&& number) {
  std::vector<double> numbers;
  for (const auto& one : items) numbers.push_back(static_cast<double>(number(one)));
  return numbers;
}

void add_counts(Results& results, const std::vector<Repetition>& repetitions, std::size_t variant) {
  for (const auto& [info, of] : count_metrics())
    results.add_mean(info.name, info.unit, static_cast<int>(variant), -1,
                     numbers_of_items(repetitions, [&](const auto& one) { return of(one, one.variants[variant]); }));
}

// `speed`: index of the memory speed; -1 if the counts do not depend on the memory speed.
void add_memory_counts(Results& results, const std::vector<Repetition>& repetitions, std::size_t variant, int speed) {
  const auto add = [&](const std::string& name, const char* unit, auto&& count) {
    const auto at = static_cast<std::size_t>(std::max(speed, 0));
    const auto of = [&](const auto& one) { return count(one.variants[variant].memory_counts_by_speed[at]); };
    results.add_mean(name, unit, static_cast<int>(variant), speed, numbers_of_items(repetitions, of));
  };
  for (const auto& one : dram_metrics)
    add(one.name, one.unit, [&](const Counts& counts) { return counts.dram.*one.count; });
  const std::size_t levels = repetitions.front().variants[variant].memory.levels.size();
  for (const auto& one : cache_level_metrics)
    for (std::size_t level = one.first_level; level <= levels; ++level)
      add(metric_of_level(level, one.name), "count",
          [&](const Counts& counts) { return counts.levels[level - 1].*one.count; });
}

void add_poll_counts(Results& results, const std::vector<Repetition>& repetitions, std::size_t variant, int speed) {
  const auto polls = [&](const auto& one) {
    const NicCounts& nic = one.variants[variant].nic;
    return nic.events + nic.empty_polls[static_cast<std::size_t>(speed)];
  };
  results.add_mean("nic_polls", "count", static_cast<int>(variant), speed, numbers_of_items(repetitions, polls));
}

// The metric of the time that ranks spend in one kind of MPI call.
struct CallTimeMetric {
  const char* metric;
  const char* summary;
  ConfigClock TimeInCalls::* time;
};

constexpr CallTimeMetric call_time_metrics[] = {
    {"sending_time", "of posting sends, the mean of all ranks and repetitions", &TimeInCalls::send_time},
    {"receiving_time", "of posting receives, the mean of all ranks and repetitions", &TimeInCalls::receive_time},
    {"waiting_time", "of waiting for messages, the mean of all ranks and repetitions", &TimeInCalls::wait_time},
};

void add_call_times(Results& results, const std::vector<Repetition>& repetitions, std::size_t variant, int speed) {
  const int v = static_cast<int>(variant);
  std::vector<double> all(repetitions.size());
  for (const auto& [metric, summary, time] : call_time_metrics) {
    std::vector<double> means;
    for (const auto& one : repetitions) {
      const auto ns =
          numbers_of_items(one.time_in_calls, [&](const TimeInCalls& calls) { return (calls.*time)[v][speed] / 1e3; });
      means.push_back(std::accumulate(ns.begin(), ns.end(), 0.0) / static_cast<double>(ns.size()));
    }
    for (std::size_t i = 0; i < all.size(); ++i) all[i] += means[i];
    results.add_mean(metric, "ns", v, speed, means);
  }
  results.add_mean("mpi_time", "ns", v, speed, all);
}

std::vector<MetricInfo> workload_metrics() {
  std::vector<MetricInfo> list{
      {"mean_time", "ns", Combine::slowest, "the mean over the repetitions, the first one included"},
      {"first_time", "ns", Combine::slowest, "of the first repetition, whose caches hold nothing that arrived"},
      {"nic_polls", "count", Combine::root,
       "polls of cores at their event queues, those that find nothing included; counts are of the mean repetition"},
  };
  for (const auto& [metric, summary, time] : call_time_metrics) list.push_back({metric, "ns", Combine::root, summary});
  list.push_back({"mpi_time", "ns", Combine::root, "of all these calls together"});
  for (const auto& one : count_metrics()) list.push_back(one.info);
  for (const auto& one : dram_metrics) list.push_back({one.name, one.unit, Combine::root, one.summary});
  for (const auto& [name, summary, first_level, count] : cache_level_metrics)
    for (std::size_t level = first_level; level <= max_cache_levels; ++level)
      list.push_back({metric_of_level(level, name), "count", Combine::root, summary + std::to_string(level)});
  return list;
}

}  // namespace

ClusterOptions options_for_nodes(const SimulationJob& job) {
  ClusterOptions options = job.options();
  const auto is_nodes = [](const auto& parameter) { return parameter.first == "nodes"; };
  const bool has_nodes = std::any_of(job.parameters.begin(), job.parameters.end(), is_nodes);
  const std::int64_t ranks = number_parameter(job.parameters, "ranks"),
                     nodes = has_nodes ? number_parameter(job.parameters, "nodes") : 1;
  if (nodes < 1 || ranks < nodes || ranks % nodes != 0 || ranks > 1'000'000)
    throw std::invalid_argument(std::to_string(ranks) + " ranks cannot be spread evenly over " + std::to_string(nodes) +
                                " nodes; a multiple of the nodes can");
  options.nodes = static_cast<int>(nodes);
  options.ranks_per_node = static_cast<int>(ranks / nodes);
  return options;
}

std::vector<Result> workload_results(const SimulationJob& job, const std::vector<Repetition>& repetitions) {
  Results results(job.settings.memory_slowdown.size());
  if (repetitions.empty()) return results.entries;
  std::vector<ConfigClock> times;
  for (const auto& one : repetitions) times.push_back(one.time);
  results.add_times(times);
  const bool polls_are_commands = job.machine.nic && job.machine.nic->polling == Polling::command;
  for (std::size_t variant = 0; variant < repetitions.front().variants.size(); ++variant) {
    add_counts(results, repetitions, variant);
    if (!polls_are_commands) add_memory_counts(results, repetitions, variant, -1);
    for (int speed = 0; speed < static_cast<int>(job.settings.memory_slowdown.size()); ++speed) {
      add_poll_counts(results, repetitions, variant, speed);
      add_call_times(results, repetitions, variant, speed);
      if (polls_are_commands) add_memory_counts(results, repetitions, variant, speed);
    }
  }
  return results.entries;
}

ScenarioSpec workload_scenario(ScenarioSpec spec) {
  spec.num_policies = max_variants;
  spec.has_nodes_parameter = true;
  spec.simulator_metrics = workload_metrics();
  return spec;
}

std::vector<RankLayout> rank_layouts(const Machine& machine, const CaseSelection& choice, RankLayout default_layout) {
  if (choice.nodes.empty()) return {default_layout};
  std::vector<RankLayout> list;
  for (const int nodes : choice.nodes)
    if (nodes <= machine.max_nodes) list.push_back({nodes == 1 ? machine.cores : nodes, nodes});
  return list;
}

}  // namespace nearfield::sim

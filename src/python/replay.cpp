// Binds nearfield._native.replay: replays observed programs on simulated clusters.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <variant>

#include "python/members.hpp"
#include "python/text.hpp"
#include "sim/run/replay/independent_runs.hpp"
#include "trace/stream/live.hpp"
#include "trace/stream/reader.hpp"

namespace nb = nanobind;
using namespace nearfield;
using namespace nearfield::sim;

namespace {

// Times in ns, indexed by policy, then by memory slowdown.
using NanosecondsByPolicy = std::vector<std::vector<double>>;
// A Python function that returns, for the object file `path`, a dict from the offset of an access to its number of
// floating-point operations per access.
using FlopsFunction = std::function<std::map<std::uint64_t, float>(const std::string& path)>;
// Paths of stream files, or the streams of a running program.
using StreamSources = std::variant<std::vector<std::string>, stream::LiveStreams*>;
using ProgressCallback = std::function<void(std::uint64_t accesses)>;

NanosecondsByPolicy to_nanoseconds_by_policy(const ConfigClock& clock) {
  NanosecondsByPolicy nanoseconds;
  for (const sim::TimeVector& times : clock) {
    auto& values_of_policy = nanoseconds.emplace_back();
    for (const Ps time : times.at) values_of_policy.push_back(time / 1e3);
  }
  return nanoseconds;
}

std::vector<Count> counts_by_level(const std::array<Count, max_cache_levels>& counts) {
  return {counts.begin(), counts.end()};
}

void bind_schedules(nb::module_& module) {
  nb::enum_<ScheduleStep::Kind>(module, "StepKind", "What a rank does at the end of a schedule step.")
      .value("notify", ScheduleStep::Kind::notify, "The rank writes a packet that a rank of the same node polls.")
      .value("send", ScheduleStep::Kind::send, "The rank posts a transfer to another node.")
      .value("wait", ScheduleStep::Kind::wait, "The rank waits for the packet of another step.")
      .value("end", ScheduleStep::Kind::end, "The program of the rank ends.");
  nb::class_<ScheduleStep> step(module, "Step", "A step of a rank's schedule. Times are in ns.");
  bind_readable(step, field("kind", &ScheduleStep::kind), field("peer", &ScheduleStep::peer),
                field("bytes", &ScheduleStep::bytes));
  step.def_prop_ro("begin_ns", [](const ScheduleStep& step) { return step.begin / 1e3; })
      .def_prop_ro(
          "end_ns", [](const ScheduleStep& step) { return step.end / 1e3; },
          "The rank computes from `begin_ns` to `end_ns`, then does what `kind` says.")
      .def_prop_ro(
          "origin", [](const ScheduleStep& step) { return std::pair(step.origin.rank, step.origin.step); },
          "For a wait: the rank and the number, from 1, of the step whose packet ended the wait.")
      .def_prop_ro(
          "latency_ns", [](const ScheduleStep& step) { return step.latency / 1e3; },
          "For a wait for a transfer from another node: the latency of the transfer, without the time of its bytes "
          "and without contention for links.");
}

void bind_calls(nb::module_& module) {
  nb::class_<replay::TimeSpent>(module, "Spent",
                                "The time that a rank spent, and its core's memory counters with the first policy.")
      .def_ro("times", &replay::TimeSpent::num_intervals)
      .def_prop_ro(
          "time_ns", [](const replay::TimeSpent& spent) { return to_nanoseconds_by_policy(spent.time); },
          "Times by policy, then by memory slowdown; beyond the last slowdown that was requested, its time is "
          "repeated.")
      .def_prop_ro(
          "hits", [](const replay::TimeSpent& spent) { return counts_by_level(spent.counters.hits); },
          "Cache hits by level.")
      .def_prop_ro(
          "misses", [](const replay::TimeSpent& spent) { return counts_by_level(spent.counters.misses); },
          "Cache misses by level.")
      .def_prop_ro("tlb_misses", [](const replay::TimeSpent& spent) { return spent.counters.tlb_misses; });
  bind_readable(nb::class_<replay::CallPlace>(module, "CallPlace", "A call site of an MPI function in the program."),
                field("object", &replay::CallPlace::object), field("offset", &replay::CallPlace::offset),
                field("callers", &replay::CallPlace::callers));
  nb::class_<replay::ReceivedData> received(module, "Received",
                                            "The messages that a call received, and the times from the arrival of "
                                            "their data to its first read, with the first policy and memory speed.");
  bind_readable(received, field("messages", &replay::ReceivedData::messages),
                field("bytes", &replay::ReceivedData::bytes), field("read_bytes", &replay::ReceivedData::read_bytes));
  received
      .def_prop_ro(
          "in_mpi_ns", [](const replay::ReceivedData& data) { return data.time_in_mpi / 1e3; },
          "The time from the arrival of the data to the end of the MPI call, summed over the messages.")
      .def_prop_ro(
          "byte_ns_until_read", [](const replay::ReceivedData& data) { return data.byte_time_until_read / 1e3; },
          "The time from the end of the MPI call to the first read of each cache line, times the line's bytes, summed "
          "over the lines.")
      .def_prop_ro(
          "byte_ns", [](const replay::ReceivedData& data) { return data.byte_time / 1e3; },
          "The same sum, with times from the arrival of the data.");
  nb::class_<replay::CallOutcome> call(module, "Call", "The calls of an MPI function from one call site.");
  bind_readable(call, field("name", &replay::CallOutcome::name), field("place", &replay::CallOutcome::place),
                field("spent", &replay::CallOutcome::spent), field("timeline", &replay::CallOutcome::timeline),
                field("received", &replay::CallOutcome::received));
  call.def_prop_ro(
      "intervals_ns",
      [](const replay::CallOutcome& call) {
        std::vector<std::pair<double, double>> intervals_ns;
        for (const auto& [begin, end] : call.intervals) intervals_ns.emplace_back(begin / 1e3, end / 1e3);
        return intervals_ns;
      },
      "The start and the end of each call, in order; empty unless schedules were recorded.");
}

void bind_rank_results(nb::module_& module) {
  nb::class_<replay::TimingSensitivity> timing_sensitivity(module, "TimingSensitivity",
                                                           "How often other timing could have changed the program's "
                                                           "behaviour.");
  bind_readable(timing_sensitivity, field("from_any", &replay::TimingSensitivity::from_any),
                field("contested", &replay::TimingSensitivity::ambiguous_matches),
                field("looks", &replay::TimingSensitivity::polls),
                field("failed_looks", &replay::TimingSensitivity::failed_polls),
                field("waits_for_any", &replay::TimingSensitivity::waits_for_any));
  timing_sensitivity
      .def_prop_ro(
          "outcomes", [](const replay::TimingSensitivity& sensitivity) { return sensitivity.races.outcomes; },
          "The number of outcomes that depend on timing.")
      .def_prop_ro(
          "otherwise",
          [](const replay::TimingSensitivity& sensitivity) { return sensitivity.races.num_divergent_outcomes; },
          "How many of these outcomes would have differed, by policy and memory slowdown; 0 for policies beyond the "
          "last one.");
  bind_readable(
      nb::class_<replay::RankReplayResult>(module, "RankOutcome"), field("calls", &replay::RankReplayResult::calls),
      field("computing", &replay::RankReplayResult::computing), field("accesses", &replay::RankReplayResult::accesses),
      field("skipped_accesses", &replay::RankReplayResult::skipped_accesses),
      field("flops", &replay::RankReplayResult::flops),
      field("dependence", &replay::RankReplayResult::timing_sensitivity),
      field("regions", &replay::RankReplayResult::regions));
}

void bind_results(nb::module_& module) {
  nb::class_<replay::ReplayResult>(module, "Replayed", "An observed program on a simulated cluster.")
      .def_ro("ranks", &replay::ReplayResult::ranks)
      .def_prop_ro(
          "part_ns", [](const replay::ReplayResult& replayed) { return replayed.bin_ps / 1e3; },
          "The bin width of the calls' timelines. The timelines contain times in ps, with the first policy and memory "
          "speed.")
      .def_prop_ro(
          "finished_ns",
          [](const replay::ReplayResult& replayed) {
            std::vector<NanosecondsByPolicy> all;
            for (const auto& rank : replayed.cluster.ranks) all.push_back(to_nanoseconds_by_policy(rank.finish_time));
            return all;
          },
          "The completion times, by rank, policy and memory slowdown.")
      .def(
          "schedule",
          [](const replay::ReplayResult& replayed, std::size_t rank) {
            return replayed.cluster.ranks.at(rank).schedule;
          },
          nb::arg("rank"), "Returns the steps of a rank in order; none unless schedules were recorded.")
      .def_prop_ro(
          "memory",
          [](const replay::ReplayResult& replayed) {
            std::vector<Counts> all;
            for (const auto& variant : replayed.cluster.variants) all.push_back(variant.memory);
            return all;
          },
          "The sums of all nodes' memory counters, by policy.")
      .def_prop_ro(
          "memory_at",
          [](const replay::ReplayResult& replayed) {
            std::vector<std::array<Counts, num_memory_speeds>> all;
            for (const auto& variant : replayed.cluster.variants) all.push_back(variant.memory_counts_by_speed);
            return all;
          },
          "The sums of all nodes' memory counters, by policy and memory slowdown.")
      .def_prop_ro(
          "nic_polls",
          [](const replay::ReplayResult& replayed) {
            std::vector<std::vector<Count>> all;
            for (const auto& variant : replayed.cluster.variants) {
              auto& values_of_policy = all.emplace_back();
              for (const Count empty : variant.nic.empty_polls) values_of_policy.push_back(variant.nic.events + empty);
            }
            return all;
          },
          "The number of polls of event queues by cores, by policy and memory slowdown.")
      .def_prop_ro("messages", [](const replay::ReplayResult& replayed) { return replayed.cluster.messages; })
      .def_prop_ro("network_bytes", [](const replay::ReplayResult& replayed) { return replayed.cluster.bytes; });
}

using Readers = std::vector<std::unique_ptr<stream::StreamReader>>;  // null for ranks of other shards

// Returns the number of accesses that all readers have read.
std::uint64_t count_accesses_read(const Readers& readers) {
  std::uint64_t accesses = 0;
  for (const auto& reader : readers) accesses += reader ? reader->num_accesses_read() : 0;
  return accesses;
}

// Returns a callback for the simulation. It throws if the user has pressed Ctrl-C, and calls `progress` with the number
// of accesses that these readers have read, plus `earlier_accesses`.
std::function<void()> make_progress_callback(const Readers& readers, const std::optional<ProgressCallback>& progress,
                                             std::uint64_t earlier_accesses) {
  return [&readers, &progress, earlier_accesses] {
    const nb::gil_scoped_acquire python;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!progress) return;
    (*progress)(earlier_accesses + count_accesses_read(readers));
  };
}

// Calls `flops_of` once per object file, and caches the result for all ranks.
class FlopsCache {
 public:
  explicit FlopsCache(const std::optional<FlopsFunction>& flops_of) : flops_of_(flops_of) {}
  // Returns a function from site number to floating-point operations per access. It must not outlive this object and
  // the reader.
  std::function<float(std::uint32_t site)> make_site_flops(const stream::StreamReader& reader) {
    if (!flops_of_) return {};
    return [this, &reader](std::uint32_t number) {
      const stream::Site& site = reader.sites()[number];
      const auto& flops_by_offset = flops_of_object(reader.objects().at(site.object));
      const auto entry = flops_by_offset.find(site.offset);
      return entry == flops_by_offset.end() ? 0.f : entry->second;
    };
  }

 private:
  const std::map<std::uint64_t, float>& flops_of_object(const std::string& path) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto entry = flops_by_object_.find(path); entry != flops_by_object_.end()) return entry->second;
    }
    std::map<std::uint64_t, float> flops;
    {
      const nb::gil_scoped_acquire python;  // not under the mutex, for which other threads may wait
      flops = (*flops_of_)(path);
    }
    const std::lock_guard lock(mutex_);
    return flops_by_object_.try_emplace(path, std::move(flops)).first->second;
  }

  const std::optional<FlopsFunction>& flops_of_;
  std::mutex mutex_;
  std::map<std::string, std::map<std::uint64_t, float>> flops_by_object_;
};

// Opens the streams of the ranks for which is_on_this_shard(rank) is true; the readers of other ranks are null.
Readers open_streams(const StreamSources& streams, const std::function<bool(int rank)>& is_on_this_shard) {
  Readers readers;
  if (const auto* const files = std::get_if<std::vector<std::string>>(&streams)) {
    for (const std::string& path : *files) {
      const bool is_local = is_on_this_shard(static_cast<int>(readers.size()));
      readers.push_back(is_local ? std::make_unique<stream::StreamReader>(path) : nullptr);
    }
    return readers;
  }
  stream::LiveStreams& live = *std::get<stream::LiveStreams*>(streams);
  for (int rank = 0; rank < live.num_ranks(); ++rank)
    readers.push_back(std::make_unique<stream::StreamReader>("rank " + std::to_string(rank), live.open_input(rank)));
  return readers;
}

// Returns a function that sends replies to a rank of the running program; empty if the streams are files.
std::function<void(std::span<const std::int64_t>)> make_reply_function(const StreamSources& streams, int rank) {
  stream::LiveStreams* const* const live = std::get_if<stream::LiveStreams*>(&streams);
  if (!live) return {};
  return [to = *live, rank](std::span<const std::int64_t> words) {
    to->queue_reply(rank, words.data(), words.size_bytes());
  };
}

// Returns the view of shard `number` on a simulation in `count` shards (processes). `exchange` is a Python function
// that sends the bytes of this shard to all shards and returns the list of the bytes of all shards.
Shards make_shards(int number, int count, const nb::callable& exchange) {
  return {number, count, [exchange](const std::string& own_bytes) {
            const nb::gil_scoped_acquire python;
            std::vector<std::string> bytes_by_shard;
            for (const nb::handle part : exchange(nb::bytes(own_bytes.data(), own_bytes.size()))) {
              const auto bytes = nb::cast<nb::bytes>(part);
              bytes_by_shard.emplace_back(bytes.c_str(), bytes.size());
            }
            return bytes_by_shard;
          }};
}

replay::ReplayResult run_all_variants(const Machine& machine, int nodes, int ranks_per_node,
                                      const std::vector<std::string>& policies,
                                      const std::vector<double>& memory_slowdown, const StreamSources& streams,
                                      const std::optional<FlopsFunction>& flops_of,
                                      const std::vector<std::string>& regions, bool needs_core_counters, int threads,
                                      const std::optional<ProgressCallback>& progress, bool independent_runs,
                                      Shards& shards, std::optional<int> scheduled_policy,
                                      std::optional<std::uint64_t> start_seed, bool first_reads) {
  if (memory_slowdown.empty() || memory_slowdown.size() > num_memory_speeds)
    throw std::invalid_argument("memory_slowdown: from 1 to " + std::to_string(num_memory_speeds) + " factors");
  ClusterOptions options;
  options.nodes = nodes;
  options.ranks_per_node = ranks_per_node;
  options.needs_core_counters = needs_core_counters;
  options.threads = threads;
  options.shards = &shards;
  options.scheduled_policy = scheduled_policy;
  const NodeRange own_nodes = shards.nodes_of_this_shard(nodes);
  std::uint64_t earlier_accesses = 0;
  const auto run_variants = [&](const std::vector<std::string>& run_policies, const std::vector<double>& run_slowdown) {
    FlopsCache flops(flops_of);
    const Readers readers =
        open_streams(streams, [&](int rank) { return own_nodes.contains(rank / std::max(1, ranks_per_node)); });
    std::vector<replay::RankStream> sources;
    for (const auto& reader : readers) {
      const int rank = static_cast<int>(sources.size());
      if (!reader) {
        sources.emplace_back();
        continue;
      }
      sources.push_back({reader.get(), [&reader] { return reader->open_at_chunk(); }, flops.make_site_flops(*reader),
                         make_reply_function(streams, rank)});
    }
    options.placement_policy_names = run_policies;
    options.memory_slowdown.fill(run_slowdown.back());
    std::ranges::copy(run_slowdown, options.memory_slowdown.begin());
    options.progress_callback = make_progress_callback(readers, progress, earlier_accesses);
    replay::ReplayResult result = replay::run_replay(machine, options, sources, {regions, start_seed, first_reads});
    earlier_accesses += count_accesses_read(readers);
    return result;
  };
  if (!independent_runs) return run_variants(policies, memory_slowdown);
  return replay::run_independently(
      policies, memory_slowdown,
      [&run_variants](const std::string& policy, double slowdown) { return run_variants({policy}, {slowdown}); });
}

// Replays the streams on this shard, or in this process alone if `shards` is null. If this shard fails, it leaves the
// other shards, which then end, too.
replay::ReplayResult run_on_shard(const Machine& machine, int nodes, int ranks_per_node,
                                  const std::vector<std::string>& policies, const std::vector<double>& memory_slowdown,
                                  const StreamSources& streams, const std::optional<FlopsFunction>& flops_of,
                                  const std::vector<std::string>& regions, bool needs_core_counters, int threads,
                                  const std::optional<ProgressCallback>& progress, bool independent_runs,
                                  Shards* shards, std::optional<int> scheduled_policy,
                                  std::optional<std::uint64_t> start_seed, bool first_reads) {
  const nb::gil_scoped_release gil_release;
  Shards single_shard;
  try {
    return run_all_variants(machine, nodes, ranks_per_node, policies, memory_slowdown, streams, flops_of, regions,
                            needs_core_counters, threads, progress, independent_runs, shards ? *shards : single_shard,
                            scheduled_policy, start_seed, first_reads);
  } catch (...) {
    if (shards) shards->leave_run();
    throw;
  }
}

}  // namespace

void bind_replay(nb::module_& parent) {
  auto module = parent.def_submodule("replay", "Observed programs on simulated clusters.");
  bind_schedules(module);
  bind_calls(module);
  bind_rank_results(module);
  bind_results(module);
  nb::exception<RemoteShardFailed>(module, "RemoteShardFailed", PyExc_Exception);
  nb::class_<Shards>(module, "Shards",
                     "The processes (shards) that simulate one cluster together; this one is `number`.")
      .def(
          "__init__",
          [](Shards* shards, int number, int count, const nb::callable& exchange) {
            new (shards) Shards(make_shards(number, count, exchange));
          },
          nb::arg("number"), nb::arg("count"), nb::arg("exchange"),
          "`exchange` sends bytes to all shards and returns the list of the bytes of all shards, in their order.");
  module.def(
      "run", &run_on_shard, nb::arg("machine"), nb::arg("nodes"), nb::arg("ranks_per_node"), nb::arg("policies"),
      nb::arg("memory_slowdown"), nb::arg("streams"), nb::arg("flops_of").none(), nb::arg("regions"),
      nb::arg("count_sides"), nb::arg("threads"), nb::arg("progress").none(), nb::arg("independent_runs"),
      nb::arg("shards").none() = nb::none(), nb::arg("scheduled_policy").none() = nb::none(),
      nb::arg("start_seed").none() = nb::none(), nb::arg("first_reads") = false,
      "Simulates a program from the streams of its ranks: files, or the live streams of a running program. `flops_of` "
      "returns, for the path of an object file, a dict from the offset of an access to its floating-point operations "
      "per "
      "access; None: accesses have no floating-point operations. `regions` are the names of the regions that count; if "
      "empty, the whole program counts. `threads` is the maximum number of threads on the host, on which results do "
      "not "
      "depend. `progress` is called periodically, in the caller's thread, with the number of accesses read so far. "
      "`independent_runs` simulates each policy and memory speed in a separate run. `shards` are the processes that "
      "simulate the cluster together: the result of shard 0 covers all ranks, and `progress` is called with the "
      "accesses "
      "of this shard's ranks, at least once per time window. `scheduled_policy` is the index of the policy whose times "
      "the recorded schedules have; None: schedules are not recorded. With `start_seed`, ranks start up to 100 ns "
      "late, "
      "at pseudorandom times that depend only on this number; None: all ranks start at the same time. `first_reads` "
      "measures the time from the arrival of received data to its first read. Raises ValueError for an impossible "
      "cluster, RuntimeError for streams that cannot be simulated, and RemoteShardFailed if another shard failed.");
}

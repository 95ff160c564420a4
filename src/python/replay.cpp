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
using Nanoseconds = std::vector<std::vector<double>>;
// A function of Python that returns the number of floating-point operations per access, by the offset of the access in
// the object file `path`.
using FlopsOf = std::function<std::map<std::uint64_t, float>(const std::string& path)>;
// Paths of stream files, or the streams of a running program.
using Streams = std::variant<std::vector<std::string>, stream::LiveStreams*>;
using Progress = std::function<void(std::uint64_t accesses)>;

Nanoseconds to_nanoseconds(const ConfigClock& clock) {
  Nanoseconds all;
  for (const sim::TimeVector& times : clock) {
    auto& of_policy = all.emplace_back();
    for (const Ps time : times.at) of_policy.push_back(time / 1e3);
  }
  return all;
}

std::vector<Count> counts_by_level(const std::array<Count, max_cache_levels>& counts) {
  return {counts.begin(), counts.end()};
}

void bind_schedules(nb::module_& module) {
  nb::enum_<ScheduleStep::Kind>(module, "StepKind", "What a rank does at the end of a piece of work.")
      .value("notify", ScheduleStep::Kind::notify, "It writes a packet that a rank of its node polls.")
      .value("send", ScheduleStep::Kind::send, "It posts a transfer to another node.")
      .value("wait", ScheduleStep::Kind::wait, "It needs the packet of another step.")
      .value("end", ScheduleStep::Kind::end, "Its program ends.");
  nb::class_<ScheduleStep> step(module, "Step", "A step of a rank's schedule. Times are in ns.");
  bind_readable(step, field("kind", &ScheduleStep::kind), field("peer", &ScheduleStep::peer),
                field("bytes", &ScheduleStep::bytes));
  step.def_prop_ro("begin_ns", [](const ScheduleStep& one) { return one.begin / 1e3; })
      .def_prop_ro(
          "end_ns", [](const ScheduleStep& one) { return one.end / 1e3; },
          "The rank worked from `begin_ns` to `end_ns`, then took the step.")
      .def_prop_ro(
          "origin", [](const ScheduleStep& one) { return std::pair(one.origin.rank, one.origin.step); },
          "Of a wait: the rank and the number, from 1, of the step for which it waited.")
      .def_prop_ro(
          "latency_ns", [](const ScheduleStep& one) { return one.latency / 1e3; },
          "Of a wait for a transfer from another node: its time without that of the bytes and of waiting for links.");
}

void bind_calls(nb::module_& module) {
  nb::class_<replay::TimeSpent>(module, "Spent", "Time that a rank spent, and what its core saw by the first policy.")
      .def_ro("times", &replay::TimeSpent::times)
      .def_prop_ro(
          "time_ns", [](const replay::TimeSpent& spent) { return to_nanoseconds(spent.time); },
          "Times by policy, then by memory slowdown; those beyond the last one that was asked for repeat it.")
      .def_prop_ro(
          "hits", [](const replay::TimeSpent& spent) { return counts_by_level(spent.counters.hits); },
          "By level of cache.")
      .def_prop_ro(
          "misses", [](const replay::TimeSpent& spent) { return counts_by_level(spent.counters.misses); },
          "By level of cache.")
      .def_prop_ro("tlb_misses", [](const replay::TimeSpent& spent) { return spent.counters.tlb_misses; });
  bind_readable(nb::class_<replay::CallPlace>(module, "CallPlace", "A place in the program from which MPI is called."),
                field("object", &replay::CallPlace::object), field("offset", &replay::CallPlace::offset),
                field("callers", &replay::CallPlace::callers));
  nb::class_<replay::ReceivedData> received(module, "Received",
                                            "The messages that a call received, and how long their data lay before "
                                            "it was read, by the first policy at the first memory speed.");
  bind_readable(received, field("messages", &replay::ReceivedData::messages),
                field("bytes", &replay::ReceivedData::bytes), field("read_bytes", &replay::ReceivedData::read_bytes));
  received
      .def_prop_ro(
          "in_mpi_ns", [](const replay::ReceivedData& data) { return data.in_mpi / 1e3; },
          "From the arrival of the data to the end of the MPI call, summed over the messages.")
      .def_prop_ro(
          "byte_ns_until_read", [](const replay::ReceivedData& data) { return data.byte_time_until_read / 1e3; },
          "From there to the first read of each cache line, times its bytes, summed.")
      .def_prop_ro(
          "byte_ns", [](const replay::ReceivedData& data) { return data.byte_time / 1e3; },
          "The same from the arrival on.");
  nb::class_<replay::CallOutcome> call(module, "Call", "A function of MPI, called from one place.");
  bind_readable(call, field("name", &replay::CallOutcome::name), field("place", &replay::CallOutcome::place),
                field("spent", &replay::CallOutcome::spent), field("timeline", &replay::CallOutcome::timeline),
                field("received", &replay::CallOutcome::received));
  call.def_prop_ro(
      "intervals_ns",
      [](const replay::CallOutcome& call) {
        std::vector<std::pair<double, double>> all;
        for (const auto& [begin, end] : call.intervals) all.emplace_back(begin / 1e3, end / 1e3);
        return all;
      },
      "The begin and the end of each call, in order; empty unless schedules were recorded.");
}

void bind_rank_results(nb::module_& module) {
  nb::class_<replay::TimingSensitivity> timing_sensitivity(module, "TimingSensitivity",
                                                           "How often time could have decided otherwise.");
  bind_readable(timing_sensitivity, field("from_any", &replay::TimingSensitivity::from_any),
                field("contested", &replay::TimingSensitivity::ambiguous_matches),
                field("looks", &replay::TimingSensitivity::polls),
                field("failed_looks", &replay::TimingSensitivity::failed_polls),
                field("waits_for_any", &replay::TimingSensitivity::waits_for_any));
  timing_sensitivity
      .def_prop_ro(
          "outcomes", [](const replay::TimingSensitivity& sensitivity) { return sensitivity.races.outcomes; },
          "That time decides.")
      .def_prop_ro(
          "otherwise", [](const replay::TimingSensitivity& sensitivity) { return sensitivity.races.divergent; },
          "How many of these would have been others, by policy and memory slowdown; policies there are none of have "
          "0.");
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
          "part_ns", [](const replay::ReplayResult& replayed) { return replayed.part_ps / 1e3; },
          "How long a part of the calls' timelines is; these are times of the first policy and memory speed, in ps.")
      .def_prop_ro(
          "finished_ns",
          [](const replay::ReplayResult& replayed) {
            std::vector<Nanoseconds> all;
            for (const auto& rank : replayed.cluster.ranks) all.push_back(to_nanoseconds(rank.finished));
            return all;
          },
          "By rank, policy and memory slowdown.")
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
          "The counts of all nodes together, by policy.")
      .def_prop_ro(
          "memory_at",
          [](const replay::ReplayResult& replayed) {
            std::vector<std::array<Counts, num_memory_speeds>> all;
            for (const auto& variant : replayed.cluster.variants) all.push_back(variant.memory_at);
            return all;
          },
          "The same, by policy and memory slowdown.")
      .def_prop_ro(
          "nic_polls",
          [](const replay::ReplayResult& replayed) {
            std::vector<std::vector<Count>> all;
            for (const auto& variant : replayed.cluster.variants) {
              auto& of_policy = all.emplace_back();
              for (const Count empty : variant.nic.empty_polls) of_policy.push_back(variant.nic.events + empty);
            }
            return all;
          },
          "Looks of cores at their event queues, by policy and memory slowdown.")
      .def_prop_ro("messages", [](const replay::ReplayResult& replayed) { return replayed.cluster.messages; })
      .def_prop_ro("network_bytes", [](const replay::ReplayResult& replayed) { return replayed.cluster.bytes; });
}

using Readers = std::vector<std::unique_ptr<stream::Reader>>;  // null for ranks of other shards

// Returns the number of accesses that all readers have read.
std::uint64_t accesses_read_by(const Readers& readers) {
  std::uint64_t accesses = 0;
  for (const auto& reader : readers) accesses += reader ? reader->accesses_read() : 0;
  return accesses;
}

// Returns a callback for the simulation: throws if the user has pressed Ctrl-C, and reports to `progress` the accesses
// read by these readers plus `others`, those of earlier runs.
std::function<void()> make_progress_callback(const Readers& readers, const std::optional<Progress>& progress,
                                             std::uint64_t others) {
  return [&readers, &progress, others] {
    const nb::gil_scoped_acquire python;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!progress) return;
    (*progress)(others + accesses_read_by(readers));
  };
}

// Calls flops_of once per object and caches the result for all ranks.
class FlopsCache {
 public:
  explicit FlopsCache(const std::optional<FlopsOf>& flops_of) : flops_of_(flops_of) {}
  // Returns a function from site number to floating-point operations per access. It must not outlive this object and
  // the reader.
  std::function<float(std::uint32_t site)> make_site_flops(const stream::Reader& reader) {
    if (!flops_of_) return {};
    return [this, &reader](std::uint32_t number) {
      const stream::Site& site = reader.sites()[number];
      const auto& of_object = flops_of_object(reader.objects().at(site.object));
      const auto found = of_object.find(site.offset);
      return found == of_object.end() ? 0.f : found->second;
    };
  }

 private:
  const std::map<std::uint64_t, float>& flops_of_object(const std::string& path) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = known_.find(path); found != known_.end()) return found->second;
    }
    std::map<std::uint64_t, float> flops;
    {
      const nb::gil_scoped_acquire python;  // not under the mutex, for which other threads may wait
      flops = (*flops_of_)(path);
    }
    const std::lock_guard lock(mutex_);
    return known_.try_emplace(path, std::move(flops)).first->second;
  }

  const std::optional<FlopsOf>& flops_of_;
  std::mutex mutex_;
  std::map<std::string, std::map<std::uint64_t, float>> known_;
};

// Opens the streams of the ranks for which is_here(rank) is true; the readers of other ranks are null.
Readers open_streams(const Streams& streams, const std::function<bool(int rank)>& is_here) {
  Readers readers;
  if (const auto* const files = std::get_if<std::vector<std::string>>(&streams)) {
    for (const std::string& path : *files) {
      const bool here = is_here(static_cast<int>(readers.size()));
      readers.push_back(here ? std::make_unique<stream::Reader>(path) : nullptr);
    }
    return readers;
  }
  stream::LiveStreams& live = *std::get<stream::LiveStreams*>(streams);
  for (int rank = 0; rank < live.ranks(); ++rank)
    readers.push_back(std::make_unique<stream::Reader>("rank " + std::to_string(rank), live.open_input(rank)));
  return readers;
}

// Returns a function that sends replies to a rank of the running program; empty if the streams are files.
std::function<void(std::span<const std::int64_t>)> make_reply_function(const Streams& streams, int rank) {
  stream::LiveStreams* const* const live = std::get_if<stream::LiveStreams*>(&streams);
  if (!live) return {};
  return [to = *live, rank](std::span<const std::int64_t> words) { to->reply(rank, words.data(), words.size_bytes()); };
}

// Returns the shards of a simulation. `exchange` is a function of Python that takes the bytes of this shard and returns
// the list of the bytes of all shards.
Shards make_shards(int number, int count, const nb::callable& exchange) {
  return {number, count, [exchange](const std::string& mine) {
            const nb::gil_scoped_acquire python;
            std::vector<std::string> all;
            for (const nb::handle part : exchange(nb::bytes(mine.data(), mine.size()))) {
              const auto bytes = nb::cast<nb::bytes>(part);
              all.emplace_back(bytes.c_str(), bytes.size());
            }
            return all;
          }};
}

replay::ReplayResult run_all_variants(const Machine& machine, int nodes, int ranks_per_node,
                                      const std::vector<std::string>& policies,
                                      const std::vector<double>& memory_slowdown, const Streams& streams,
                                      const std::optional<FlopsOf>& flops_of, const std::vector<std::string>& regions,
                                      bool count_sides, int threads, const std::optional<Progress>& progress,
                                      bool independent_runs, Shards& shards, std::optional<int> scheduled_policy,
                                      std::optional<std::uint64_t> start_seed, bool first_reads) {
  if (memory_slowdown.empty() || memory_slowdown.size() > num_memory_speeds)
    throw std::invalid_argument("memory_slowdown: from 1 to " + std::to_string(num_memory_speeds) + " factors");
  ClusterOptions options;
  options.nodes = nodes;
  options.ranks_per_node = ranks_per_node;
  options.count_sides = count_sides;
  options.threads = threads;
  options.shards = &shards;
  options.scheduled_policy = scheduled_policy;
  const NodeRange here = shards.part_of(nodes);
  std::uint64_t accesses_before = 0;
  const auto run_variants = [&](const std::vector<std::string>& run_policies, const std::vector<double>& run_slowdown) {
    FlopsCache flops(flops_of);
    const Readers readers =
        open_streams(streams, [&](int rank) { return here.contains(rank / std::max(1, ranks_per_node)); });
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
    options.policies = run_policies;
    options.memory_slowdown.fill(run_slowdown.back());
    std::ranges::copy(run_slowdown, options.memory_slowdown.begin());
    options.progress_callback = make_progress_callback(readers, progress, accesses_before);
    replay::ReplayResult found = replay::run_replay(machine, options, sources, {regions, start_seed, first_reads});
    accesses_before += accesses_read_by(readers);
    return found;
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
                                  const Streams& streams, const std::optional<FlopsOf>& flops_of,
                                  const std::vector<std::string>& regions, bool count_sides, int threads,
                                  const std::optional<Progress>& progress, bool independent_runs, Shards* shards,
                                  std::optional<int> scheduled_policy, std::optional<std::uint64_t> start_seed,
                                  bool first_reads) {
  const nb::gil_scoped_release others_may_go_on;
  Shards alone;
  try {
    return run_all_variants(machine, nodes, ranks_per_node, policies, memory_slowdown, streams, flops_of, regions,
                            count_sides, threads, progress, independent_runs, shards ? *shards : alone,
                            scheduled_policy, start_seed, first_reads);
  } catch (...) {
    if (shards) shards->leave();
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
  nb::class_<Shards>(module, "Shards", "The processes that simulate one cluster together, as one of them sees them.")
      .def(
          "__init__",
          [](Shards* shards, int number, int count, const nb::callable& exchange) {
            new (shards) Shards(make_shards(number, count, exchange));
          },
          nb::arg("number"), nb::arg("count"), nb::arg("exchange"),
          "`exchange` gives bytes to all shards and returns the list of what each of them gave, in their order.");
  module.def(
      "run", &run_on_shard, nb::arg("machine"), nb::arg("nodes"), nb::arg("ranks_per_node"), nb::arg("policies"),
      nb::arg("memory_slowdown"), nb::arg("streams"), nb::arg("flops_of").none(), nb::arg("regions"),
      nb::arg("count_sides"), nb::arg("threads"), nb::arg("progress").none(), nb::arg("independent_runs"),
      nb::arg("shards").none() = nb::none(), nb::arg("scheduled_policy").none() = nb::none(),
      nb::arg("start_seed").none() = nb::none(), nb::arg("first_reads") = false,
      "Runs a program whose rank r wrote streams[r], or that runs meanwhile. `flops_of` returns the floating-point "
      "operations that an access comes with, by the offset of its place in the object of a path; None: there are none. "
      "`regions`: names of those that count; none: all of it. "
      "`threads`: of the host, at most; results are the same with any number. `progress` is called now and then, in "
      "the caller's thread, with the accesses that have been read. `independent_runs`: each policy at each speed in a "
      "run of its "
      "own. `shards`: those that run the same; the first one's result is that of all ranks, and `progress` is called "
      "with the accesses of this shard's ranks, once in each window at least. `scheduled_policy`: the index of the "
      "policy whose times the schedules of the ranks have; None: schedules are not recorded. `start_seed`: ranks start "
      "up to 100 ns late, at random times that depend on this number only; None: all start together. `first_reads`: "
      "measures how long "
      "received data lies before it is read. "
      "Raises ValueError for an "
      "impossible cluster, RuntimeError for streams that cannot be simulated, RemoteShardFailed if another shard "
      "failed.");
}

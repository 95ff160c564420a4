#include "sim/run/scenarios/pair.hpp"

#include <algorithm>
#include <stdexcept>

#include "machine/machine.hpp"

namespace nearfield::sim {
namespace {

constexpr int tag = 100;
constexpr int within_node_rounds = 64;  // until all lines that two ranks poll have been used

// Exchanges short messages until every entry of the event queues has been used, so that measurements include no first
// touch of a page.
Task<> warm_up_queues(const PairSide& side, int rounds) {
  const Buffer send(side.rank.allocate(8), 8), receive(side.rank.allocate(8), 8);
  for (int i = 0; i < rounds; ++i) {
    if (side.is_sender) co_await side.rank.wait(side.rank.send(side.peer, send, tag));
    co_await side.rank.wait(side.rank.receive(side.peer, receive, tag));
    if (!side.is_sender) co_await side.rank.wait(side.rank.send(side.peer, send, tag));
  }
}

Task<> enter_barriers(Rank& rank, int barriers) {
  for (int i = 0; i < barriers; ++i) co_await rank.barrier();
}

ClusterOptions pair_options(const SimulationJob& job) {
  ClusterOptions options = job.options();
  const PairPlacement& place = job.place;
  options.needs_core_counters = true;
  if (place.between_nodes) {
    options.nodes = place.peer + 1;
  } else {
    options.ranks_per_node = 2;
    options.cores = {place.sender_core, place.peer};
  }
  return options;
}

void add_count(Results& results, const std::string& metric, const std::string& side, Count value) {
  results.add_number(metric, "count", side, static_cast<double>(value));
}

// Return the LLC references and misses, counted as by the hardware event LONGEST_LAT_CACHE, which includes the
// prefetcher's requests to the LLC.
Count llc_references(const Machine& machine, const PerfCounters& counters) {
  const std::size_t last = machine.caches.size() - 1;
  return counters.hits[last] + counters.misses[last] + counters.prefetches;
}

Count llc_misses(const Machine& machine, const PerfCounters& counters) {
  return counters.misses[machine.caches.size() - 1] + counters.prefetched_from_memory;
}

}  // namespace

PairMarks run_pair(const SimulationJob& job, int barriers, const std::function<Task<>(const PairSide&)>& program) {
  Cluster cluster(job.machine, pair_options(job));
  const int sender = 0, receiver = cluster.num_ranks() - 1;
  const int rounds = job.place.between_nodes ? job.machine.nic->event_entries : within_node_rounds;
  const auto make_program = [&](int peer, bool is_sender) -> Program {
    return [&program, peer, is_sender, rounds](Rank& rank) -> Task<> {
      const PairSide side{rank, peer, is_sender};
      co_await warm_up_queues(side, rounds);
      co_await program(side);
    };
  };
  std::vector<Program> programs(static_cast<std::size_t>(cluster.num_ranks()),
                                [barriers](Rank& rank) { return enter_barriers(rank, barriers); });
  programs[static_cast<std::size_t>(sender)] = make_program(receiver, true);
  programs[static_cast<std::size_t>(receiver)] = make_program(sender, false);
  const Outcome outcome = cluster.run(programs);
  return {outcome.ranks[static_cast<std::size_t>(sender)].marks,
          outcome.ranks[static_cast<std::size_t>(receiver)].marks};
}

int repetitions_for(std::int64_t size_bytes) {
  constexpr std::int64_t max = 20, min = 2, enough_bytes = 1 << 20;
  return static_cast<int>(std::clamp(enough_bytes / std::max<std::int64_t>(size_bytes, 1), min, max));
}

std::string unsupported_placement(const Machine& machine, const PairPlacement& place) {
  if (place.sender_core < 0 || place.peer < 0) return "ranks are counted from 0";
  if (place.between_nodes) {
    if (!machine.nic || !machine.network) return "the machine's description has no NIC and network: it is one node";
    if (place.peer == 0) return "a node is at no distance from itself";
    return place.peer < machine.max_nodes ? "" : "the machine has " + std::to_string(machine.max_nodes) + " nodes";
  }
  if (place.sender_core == place.peer) return "a pair is two cores";
  const int cores = machine.cores;
  return std::max(place.sender_core, place.peer) < cores ? "" : "a node has " + std::to_string(cores) + " cores";
}

ConfigClock elapsed_time(const Mark& mark) { return elapsed_time(mark, mark); }

ConfigClock elapsed_time(const Mark& from, const Mark& to) { return to.stop - from.start; }

void add_counters(Results& results, const Machine& machine, const std::string& side, const PerfCounters& counters) {
  add_count(results, "l1d_misses", side, counters.misses[0]);
  add_count(results, "llc_accesses", side, llc_references(machine, counters));
  add_count(results, "llc_misses", side, llc_misses(machine, counters));
  if (machine.pages.tlbs.empty()) {
    const std::string reason = "the machine's description has no TLB";
    for (const char* metric : {"dtlb_misses", "page_faults"}) results.add_missing(metric, "count", side, reason);
  } else {
    add_count(results, "dtlb_misses", side, counters.tlb_misses);
    add_count(results, "page_faults", side, counters.page_faults);
  }
}

void add_call_counters(Results& results, const std::string& prefix, const std::string& side, const Machine& machine,
                       const PerfCounters& counters) {
  add_count(results, prefix + "_llc_accesses", side, llc_references(machine, counters));
  add_count(results, prefix + "_llc_misses", side, llc_misses(machine, counters));
  add_count(results, prefix + "_snoops", side, counters.snoops);
  add_count(results, prefix + "_invalidations", side, counters.invalidations);
}

BufferState parse_buffer_state(const std::string& name) {
  if (name == "invalid") return BufferState::invalid;
  if (name == "exclusive") return BufferState::exclusive;
  if (name == "modified") return BufferState::modified;
  throw std::invalid_argument("'" + name + "' is no state of a buffer");
}

}  // namespace nearfield::sim

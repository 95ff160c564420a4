// scenario/load.hpp on a simulated machine: if the pair is between nodes, ranks on other nodes generate the load; if
// the pair is inside a node, ranks on the node's other cores. The run ends when the pair is done. Not simulated: more
// than `max_load_nodes` nodes unless the user requests them, several ranks per node that generate load.
#include "scenario/load.hpp"

#include <algorithm>

#include "machine/machine.hpp"
#include "sim/run/scenarios/pair.hpp"

namespace nearfield::sim {
namespace {

constexpr int tag_message = 4, tag_load = 5;
constexpr int max_load_nodes = 48;
constexpr Ps check_interval = 1e6;
constexpr int min_round_trips_under_load = 7;  // since contention differs between round trips

struct BackgroundLoadCase {
  std::uint64_t bytes, load_bytes;
  int sender, receiver, ranks, num_round_trips;
};

// State that the ranks of one run share. Accesses to it take no simulated time.
struct SharedState {
  int num_exchanges = 0;        // completed exchanges of the load
  ConfigClock round_trip_time;  // sum of the round trips
};

// Thrown when the pair has finished its round trips, to end the run.
struct PairHasFinished {};

int num_load_ranks(const BackgroundLoadCase& c) { return c.ranks - 2; }

// Returns the rank of load generator number `index`; load generators are all ranks but the pair.
int rank_of_load(const BackgroundLoadCase& c, int index) {
  const int lower_rank = std::min(c.sender, c.receiver), higher_rank = std::max(c.sender, c.receiver);
  if (index >= lower_rank) ++index;
  return index >= higher_rank ? index + 1 : index;
}

// The program of a load generator: exchanges messages pairwise with all other load generators, endlessly.
Task<> generate_load(Rank& rank, BackgroundLoadCase c, int index, SharedState& shared) {
  if (c.load_bytes == 0) co_return;
  const int n = num_load_ranks(c);
  const Address out = rank.allocate(c.load_bytes * static_cast<std::uint64_t>(n));
  const Address in = rank.allocate(c.load_bytes * static_cast<std::uint64_t>(n));
  const auto block = [&](Address begin, int block_number) {
    return Buffer(begin + static_cast<std::uint64_t>(block_number) * c.load_bytes, c.load_bytes);
  };
  for (;;)
    for (int step = 1; step < n; ++step) {
      const int to = (index + step) % n, from = (index + n - step) % n;
      co_await rank.sendrecv(rank_of_load(c, to), block(out, to), tag_load, rank_of_load(c, from), block(in, from),
                             tag_load);
      ++shared.num_exchanges;
    }
}

// The program of the rank that is timed: waits until every load generator has begun, measures, and ends the run. The
// result is the mean of the round trips without the first one, since contention differs between round trips.
Task<> ping(Rank& rank, BackgroundLoadCase c, SharedState& shared) {
  const Buffer out(rank.allocate(c.bytes), c.bytes), in(rank.allocate(c.bytes), c.bytes);
  while (c.load_bytes > 0 && shared.num_exchanges < num_load_ranks(c)) {
    rank.compute(check_interval);
    co_await rank.read(out.address, 8);
  }
  for (int i = 0; i < c.num_round_trips; ++i) {
    const ConfigClock start = rank.now();
    co_await rank.wait(rank.send(c.receiver, out, tag_message));
    co_await rank.wait(rank.receive(c.receiver, in, tag_message));
    if (i == 1) shared.round_trip_time = rank.now() - start;
    if (i > 1) shared.round_trip_time += rank.now() - start;
  }
  throw PairHasFinished{};
}

Task<> pong(Rank& rank, BackgroundLoadCase c) {
  const Buffer out(rank.allocate(c.bytes), c.bytes), in(rank.allocate(c.bytes), c.bytes);
  for (;;) {
    co_await rank.wait(rank.receive(c.sender, in, tag_message));
    co_await rank.wait(rank.send(c.sender, out, tag_message));
  }
}

// Returns the number of nodes for a pair between nodes: the requested number or, if none is requested, all nodes up to
// max_load_nodes, but always enough to include the pair's peer.
int num_nodes_for(const Machine& machine, const PairPlacement& place, std::int64_t requested) {
  const int max_nodes = requested > 0 ? static_cast<int>(requested) : max_load_nodes;
  return std::max(place.peer + 1, std::min(machine.max_nodes, max_nodes));
}

std::vector<Result> simulate_load(const SimulationJob& job) {
  const auto& [machine, place, parameters, settings, _] = job;
  const std::int64_t size = number_parameter(parameters, "size_bytes"),
                     load = number_parameter(parameters, "load_bytes");
  const int times = load > 0 ? std::max(repetitions_for(size), min_round_trips_under_load) : repetitions_for(size);
  ClusterOptions options = job.options();
  if (place.between_nodes)
    options.nodes = num_nodes_for(machine, place, parameters.size() > 2 ? number_parameter(parameters, "nodes") : 0);
  else
    options.ranks_per_node = machine.cores;
  Cluster cluster(machine, options);
  const BackgroundLoadCase c{static_cast<std::uint64_t>(size),
                             static_cast<std::uint64_t>(load),
                             place.between_nodes ? 0 : place.sender_core,
                             place.peer,
                             cluster.num_ranks(),
                             times};
  SharedState shared;
  std::vector<Program> programs(static_cast<std::size_t>(c.ranks));
  for (int i = 0; i < num_load_ranks(c); ++i)
    programs[static_cast<std::size_t>(rank_of_load(c, i))] = [&, i](Rank& rank) {
      return generate_load(rank, c, i, shared);
    };
  programs[static_cast<std::size_t>(c.sender)] = [&](Rank& rank) { return ping(rank, c, shared); };
  programs[static_cast<std::size_t>(c.receiver)] = [&](Rank& rank) { return pong(rank, c); };
  try {
    cluster.run(programs);
  } catch (const PairHasFinished&) {
  }
  Results results(settings.memory_slowdown.size());
  results.add_time("half_round_trip", "", shared.round_trip_time, 2 * (times - 1));
  return results.entries;
}

std::vector<Parameters> load_cases(const Machine& machine, const PairPlacement& place, const CaseSelection& choice) {
  std::vector<int> nodes = place.between_nodes ? choice.nodes : std::vector<int>{};
  const bool requested = !nodes.empty();
  if (!requested) nodes = {0};
  std::vector<Parameters> list;
  for (const int requested_nodes : nodes) {
    const int ranks = place.between_nodes ? num_nodes_for(machine, place, requested_nodes) : machine.cores;
    for (const auto size : load_message_sizes(choice.sizes))
      for (const auto load : background_load_sizes(choice.sizes)) {
        if (is_too_large_for_quick(choice.sizes, ranks, load)) continue;
        list.push_back({{"size_bytes", size}, {"load_bytes", load}});
        if (requested) list.back().emplace_back("nodes", std::int64_t{ranks});
      }
  }
  return list;
}

std::string unsupported_reason(const Machine& machine, const PairPlacement& place) {
  if (const std::string why = unsupported_placement(machine, place); !why.empty()) return why;
  const int ranks = place.between_nodes ? machine.max_nodes : machine.cores;
  if (ranks >= 4) return "";
  return "a load takes two ranks beside the pair, and there are " + std::to_string(ranks) +
         (place.between_nodes ? " nodes" : " cores");
}

}  // namespace

extern const ScenarioSpec load_scenario;
const ScenarioSpec load_scenario{.info = load_info,
                                 .unsupported_reason = unsupported_reason,
                                 .cases = load_cases,
                                 .run = simulate_load,
                                 .has_nodes_parameter = true};

}  // namespace nearfield::sim

// scenario/pollution.hpp on a simulated machine, with the cache misses of the traversal.
#include "scenario/pollution.hpp"

#include "machine/machine.hpp"
#include "sim/run/scenarios/pair.hpp"

namespace nearfield::sim {
namespace {

constexpr int tag = 2;

struct PollutionCase {
  std::uint64_t bytes;
  bool is_preloaded, is_baseline;
  int num_repetitions;
};

// Makes one mark per repetition.
Task<> traverse_after_call(const PairSide& side, PollutionCase c) {
  const Buffer buffer(side.rank.allocate(c.bytes), c.bytes);
  for (int i = 0; i < c.num_repetitions; ++i) {
    co_await side.rank.prepare_buffer(buffer, c.is_preloaded ? BufferState::exclusive : BufferState::invalid);
    co_await side.rank.barrier();
    if (!c.is_baseline && side.is_sender) co_await side.rank.wait(side.rank.send(side.peer, buffer, tag));
    if (!c.is_baseline && !side.is_sender) co_await side.rank.wait(side.rank.receive(side.peer, buffer, tag));
    side.rank.start_mark();
    co_await side.rank.read(buffer.address, c.bytes);
    side.rank.stop_mark();
  }
}

void add_side_results(Results& results, const Machine& machine, const char* side, const Mark& mark) {
  results.add_time("traverse", side, elapsed_time(mark));
  add_counters(results, machine, side, mark.counters);
}

std::vector<Result> simulate_pollution(const SimulationJob& job) {
  const std::int64_t size = number_parameter(job.parameters, "size_bytes");
  const std::string state = word_parameter(job.parameters, "state");
  const bool is_baseline = state.starts_with("base-");
  const bool is_preloaded = (is_baseline ? state.substr(5) : state) == "preloaded";
  const PollutionCase c{static_cast<std::uint64_t>(size), is_preloaded, is_baseline, repetitions_for(size)};
  const PairMarks marks =
      run_pair(job, c.num_repetitions, [&](const PairSide& side) { return traverse_after_call(side, c); });
  Results results(job.settings.memory_slowdown.size());
  add_side_results(results, job.machine, "sender", marks.sender.back());
  add_side_results(results, job.machine, "receiver", marks.receiver.back());
  return results.entries;
}

std::vector<Parameters> pollution_cases(const Machine&, const PairPlacement&, const CaseSelection& choice) {
  std::vector<Parameters> list;
  for (const auto size : pollution_sizes(limit_pair_sizes(choice.sizes)))
    for (const char* state : pollution_states) list.push_back({{"size_bytes", size}, {"state", state}});
  return list;
}

}  // namespace

extern const ScenarioSpec pollution_scenario;
const ScenarioSpec pollution_scenario{pollution_info, unsupported_placement, pollution_cases, simulate_pollution};

}  // namespace nearfield::sim

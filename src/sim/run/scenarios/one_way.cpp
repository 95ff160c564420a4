// scenario/one_way.hpp on a simulated machine, with the cache misses of the call and of the traversal of the buffer.
#include "scenario/one_way.hpp"

#include <algorithm>

#include "machine/machine.hpp"
#include "sim/run/scenarios/pair.hpp"

namespace nearfield::sim {
namespace {

constexpr int tag = 3;
constexpr int num_counted = 2;  // repetitions with full caches; earlier repetitions warm up the MPI's buffers
constexpr unsigned word_bytes = 8;

struct OneWayRun {
  OneWayCase test_case;
  std::uint64_t bytes, filler_bytes, line_bytes;
  int num_repetitions;

  std::uint64_t num_lines() const { return (bytes + line_bytes - 1) / line_bytes; }
  Address last_line(Address begin) const { return begin + (num_lines() - 1) * line_bytes; }
};

Task<> fill_caches(const PairSide& side, const OneWayRun& c, Address filler, Address message) {
  const auto line = static_cast<std::int64_t>(c.line_bytes);
  co_await side.rank.sweep(Access::store, filler, c.filler_bytes / c.line_bytes, line, word_bytes);
  if (c.test_case.line_state == "invalid") co_return;
  const Access access = c.test_case.line_state == "modified" ? Access::store : Access::load;
  co_await side.rank.sweep(access, c.last_line(message), c.num_lines(), -line, word_bytes);
}

Task<> signal_ready(const PairSide& side, Address address) {
  const Buffer empty_message(address, 0);
  if (side.is_sender) co_await side.rank.wait(side.rank.receive(side.peer, empty_message, tag));
  co_await side.rank.wait(side.rank.send(side.peer, empty_message, tag));
  if (!side.is_sender) co_await side.rank.wait(side.rank.receive(side.peer, empty_message, tag));
}

// Makes two marks per repetition: the MPI call, if there is one, and the traversal of the buffer.
Task<> run_one_way(const PairSide& side, OneWayRun c) {
  const Address filler = side.rank.allocate(c.filler_bytes), message = side.rank.allocate(c.bytes);
  const Buffer buffer(message, c.bytes);
  const Access access = c.test_case.is_write ? Access::store : Access::load;
  for (int i = 0; i < c.num_repetitions; ++i) {
    co_await side.rank.barrier();
    if (i >= c.num_repetitions - num_counted) co_await fill_caches(side, c, filler, message);
    if (c.test_case.has_call) {
      co_await signal_ready(side, message);
      side.rank.start_mark();
      if (side.is_sender) co_await side.rank.wait(side.rank.send(side.peer, buffer, tag));
      if (!side.is_sender) co_await side.rank.wait(side.rank.receive(side.peer, buffer, tag));
      side.rank.stop_mark();
    }
    co_await side.rank.barrier();
    side.rank.start_mark();
    co_await side.rank.sweep(access, message, c.num_lines(), static_cast<std::int64_t>(c.line_bytes), word_bytes);
    side.rank.stop_mark();
  }
}

void add_side_results(Results& results, const SimulationJob& job, const char* side, const std::vector<Mark>& marks,
                      bool has_call) {
  const Mark& traversal = marks.back();
  results.add_time("traverse", side, elapsed_time(traversal));
  PerfCounters all = traversal.counters;
  if (has_call) {
    const Mark& call = marks[marks.size() - 2];
    results.add_time("call", side, elapsed_time(call));
    add_call_counters(results, "call", side, job.machine, call.counters);
    all += call.counters;
  }
  add_call_counters(results, "traverse", side, job.machine, traversal.counters);
  add_counters(results, job.machine, side, all);
}

std::vector<Result> simulate_one_way(const SimulationJob& job) {
  const std::int64_t size = number_parameter(job.parameters, "size_bytes");
  const auto bytes = static_cast<std::uint64_t>(size);
  const Cache& last = job.machine.caches.back();
  const OneWayRun c{parse_one_way_case(job.parameters), bytes, std::max<std::uint64_t>(last.size_bytes, bytes),
                    static_cast<std::uint64_t>(last.line_bytes), repetitions_for(size) + num_counted};
  const PairMarks marks =
      run_pair(job, 2 * c.num_repetitions, [&](const PairSide& side) { return run_one_way(side, c); });
  Results results(job.settings.memory_slowdown.size());
  add_side_results(results, job, "sender", marks.sender, c.test_case.has_call);
  add_side_results(results, job, "receiver", marks.receiver, c.test_case.has_call);
  return results.entries;
}

std::vector<Parameters> simulated_one_way_cases(const Machine&, const PairPlacement&, const CaseSelection& choice) {
  return one_way_cases(limit_pair_sizes(choice.sizes));
}

}  // namespace

extern const ScenarioSpec one_way_scenario;
const ScenarioSpec one_way_scenario{one_way_info, unsupported_placement, simulated_one_way_cases, simulate_one_way,
                                    false};

}  // namespace nearfield::sim

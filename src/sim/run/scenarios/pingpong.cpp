// scenario/pingpong.hpp on a simulated machine, with the cache misses of the two calls, and the snoops and
// invalidations in the caches of their cores.
#include "scenario/pingpong.hpp"

#include "machine/machine.hpp"
#include "sim/run/scenarios/pair.hpp"

namespace nearfield::sim {
namespace {

constexpr int tag = 1;

struct MessageBuffers {
  Buffer send, receive;
};

MessageBuffers allocate_buffers(Rank& rank, std::uint64_t bytes) {
  const Address send = rank.allocate(bytes), receive = rank.allocate(bytes);
  return {Buffer(send, bytes), Buffer(receive, bytes)};
}

Task<> send_message(const PairSide& side, Buffer buffer) {
  co_await side.rank.wait(side.rank.send(side.peer, buffer, tag));
}
Task<> receive_message(const PairSide& side, Buffer buffer) {
  co_await side.rank.wait(side.rank.receive(side.peer, buffer, tag));
}

// Makes two marks per repetition: the first call (Send on the first rank, Recv on the other), and the second call.
Task<> repeat_in_state(const PairSide& side, std::uint64_t bytes, BufferState state, int times) {
  const MessageBuffers buffers = allocate_buffers(side.rank, bytes);
  for (int i = 0; i < times; ++i) {
    co_await side.rank.prepare_buffer(buffers.receive, state);
    co_await side.rank.prepare_buffer(buffers.send, state);
    co_await side.rank.barrier();
    for (const bool sends : {side.is_sender, !side.is_sender}) {
      side.rank.start_mark();
      if (sends)
        co_await send_message(side, buffers.send);
      else
        co_await receive_message(side, buffers.receive);
      side.rank.stop_mark();
    }
  }
}

// Makes one mark around the last `num_counted` round trips.
Task<> repeat_back_to_back(const PairSide& side, std::uint64_t bytes, int times, int num_counted) {
  const MessageBuffers buffers = allocate_buffers(side.rank, bytes);
  for (int i = 0; i < times + num_counted; ++i) {
    if (i == times) co_await side.rank.barrier();
    if (i == times) side.rank.start_mark();
    if (side.is_sender) co_await send_message(side, buffers.send);
    co_await receive_message(side, buffers.receive);
    if (!side.is_sender) co_await send_message(side, buffers.send);
  }
  side.rank.stop_mark();
}

void add_side_results(Results& results, const Machine& machine, const char* side, const Mark& send,
                      const Mark& receive) {
  results.add_time("send", side, elapsed_time(send));
  results.add_time("receive", side, elapsed_time(receive));
  PerfCounters sum = send.counters;
  sum += receive.counters;
  add_counters(results, machine, side, sum);
  add_call_counters(results, "send", side, machine, send.counters);
  add_call_counters(results, "receive", side, machine, receive.counters);
}

std::vector<Result> simulate_pingpong(const SimulationJob& job) {
  const std::int64_t size = number_parameter(job.parameters, "size_bytes");
  const auto bytes = static_cast<std::uint64_t>(size);
  const std::string state = word_parameter(job.parameters, "state");
  const int times = repetitions_for(size);
  Results results(job.settings.memory_slowdown.size());
  if (state == "reused") {
    const int num_counted = pingpong_round_trips(size);
    const auto program = [&](const PairSide& side) { return repeat_back_to_back(side, bytes, times, num_counted); };
    const PairMarks marks = run_pair(job, 1, program);
    results.add_time("half_round_trip", "", elapsed_time(marks.sender.back()), 2 * num_counted);
    return results.entries;
  }
  const auto program = [&](const PairSide& side) {
    return repeat_in_state(side, bytes, parse_buffer_state(state), times);
  };
  const PairMarks marks = run_pair(job, times, program);
  const std::size_t first_call = marks.sender.size() - 2, second_call = first_call + 1;
  add_side_results(results, job.machine, "sender", marks.sender[first_call], marks.sender[second_call]);
  add_side_results(results, job.machine, "receiver", marks.receiver[second_call], marks.receiver[first_call]);
  results.add_time("half_round_trip", "", elapsed_time(marks.sender[first_call], marks.sender[second_call]), 2);
  return results.entries;
}

std::vector<Parameters> pingpong_cases(const Machine& machine, const PairPlacement& place,
                                       const CaseSelection& choice) {
  const auto& messaging = machine.messaging;
  const auto limit =
      static_cast<std::int64_t>(place.between_nodes ? messaging.eager_bytes : messaging.node_eager_bytes);
  std::vector<Parameters> list;
  for (const auto size : pingpong_sizes(limit_pair_sizes(choice.sizes), {limit}))
    for (const char* state : pingpong_states) list.push_back({{"size_bytes", size}, {"state", state}});
  return list;
}

}  // namespace

extern const ScenarioSpec pingpong_scenario;
const ScenarioSpec pingpong_scenario{pingpong_info, unsupported_placement, pingpong_cases, simulate_pingpong};

}  // namespace nearfield::sim

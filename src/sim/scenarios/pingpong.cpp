// SCN1 of S0, section II.A: Send and Recv timed apart, with both ranks' message buffers in a known cache state; what
// the two calls missed, and what others took from the caches of their core. `reused` as in the measured one: round
// trips back to back on buffers as the last one left them. Leaves out: mixed states of the two ranks.
#include <algorithm>

#include "sim/scenarios/pair.hpp"

namespace nearfield::sim {
namespace {

constexpr int tag = 1;

struct Buffers {
  Buffer send, receive;
};

Buffers allocate(Rank& rank, std::uint64_t bytes) {
  const Address send = rank.allocate(bytes), receive = rank.allocate(bytes);
  return {Buffer(send, bytes), Buffer(receive, bytes)};
}

Task<> send(const Side& side, Buffer buffer) { co_await side.rank.wait(side.rank.send(side.peer, buffer, tag)); }
Task<> receive(const Side& side, Buffer buffer) { co_await side.rank.wait(side.rank.receive(side.peer, buffer, tag)); }

// Two marks per repetition: the call that comes first, and the other one.
Task<> in_state(const Side& side, std::uint64_t bytes, BufferState state, int times) {
  const Buffers buffers = allocate(side.rank, bytes);
  for (int i = 0; i < times; ++i) {
    co_await side.rank.prepare(buffers.receive, state);
    co_await side.rank.prepare(buffers.send, state);
    co_await side.rank.line_up();
    side.rank.start();
    if (side.first)
      co_await send(side, buffers.send);
    else
      co_await receive(side, buffers.receive);
    side.rank.stop();
    side.rank.start();
    if (side.first)
      co_await receive(side, buffers.receive);
    else
      co_await send(side, buffers.send);
    side.rank.stop();
  }
}

// One mark, around the last `counted` round trips.
Task<> back_to_back(const Side& side, std::uint64_t bytes, int times, int counted) {
  const Buffers buffers = allocate(side.rank, bytes);
  for (int i = 0; i < times + counted; ++i) {
    if (i == times) co_await side.rank.line_up();
    if (i == times) side.rank.start();
    if (side.first) co_await send(side, buffers.send);
    co_await receive(side, buffers.receive);
    if (!side.first) co_await send(side, buffers.send);
  }
  side.rank.stop();
}

void add_side(std::vector<Result>& results, const Machine& machine, const char* side, const Mark& send,
              const Mark& receive) {
  results.push_back({"send", "ns", side, elapsed_ns(send), ""});
  results.push_back({"receive", "ns", side, elapsed_ns(receive), ""});
  Seen both = send.seen;
  both += receive.seen;
  add_counters(results, machine, side, both);
  add_call_counters(results, "send", side, machine, send.seen);
  add_call_counters(results, "receive", side, machine, receive.seen);
}

std::vector<Result> run(const Machine& machine, const Place& place, const Parameters& parameters) {
  const std::int64_t size = number(parameters, "size_bytes");
  const auto bytes = static_cast<std::uint64_t>(size);
  const std::string state = word(parameters, "state");
  const int times = repetitions(size);
  if (state == "reused") {
    const int counted = static_cast<int>(std::clamp<std::int64_t>(65536 / size, 1, 32));
    const auto program = [&](const Side& side) { return back_to_back(side, bytes, times, counted); };
    const PairMarks marks = run_pair(machine, place, 1, program);
    return {{"half_round_trip", "ns", "", elapsed_ns(marks.sender.back()) / (2 * counted), ""}};
  }
  const auto program = [&](const Side& side) { return in_state(side, bytes, state_named(state), times); };
  const PairMarks marks = run_pair(machine, place, times, program);
  const std::size_t one = marks.sender.size() - 2, other = one + 1;
  std::vector<Result> results;
  add_side(results, machine, "sender", marks.sender[one], marks.sender[other]);
  add_side(results, machine, "receiver", marks.receiver[other], marks.receiver[one]);
  results.push_back({"half_round_trip", "ns", "", elapsed_ns(marks.sender[one], marks.sender[other]) / 2, ""});
  return results;
}

std::vector<Parameters> cases(const Machine& machine, const Place& place, const SizeChoice& choice) {
  const auto& messaging = machine.messaging;
  const auto limit =
      static_cast<std::int64_t>(place.between_nodes ? messaging.eager_bytes : messaging.node_eager_bytes);
  std::vector<Parameters> list;
  for (const auto size : dense_size_ladder(choice, {limit}, 1, largest_message(machine, choice)))
    for (const char* state : {"invalid", "exclusive", "modified", "reused"})
      list.push_back({{"size_bytes", size}, {"state", state}});
  return list;
}

}  // namespace

const ScenarioSpec pingpong_scenario{
    "pingpong",
    "Send and Recv timed apart, message buffers in a known cache state",
    true,
    {{"size_bytes", "message size"},
     {"state", "of the send and receive buffers: invalid, exclusive, modified, or reused (as the last left them)"}},
    {{"send", "ns", "MPI_Send, at the rank that sends first and at the one that answers"},
     {"receive", "ns", "MPI_Recv, the wait for the message included"},
     {"half_round_trip", "ns", "half of Send + Recv at the first sender"}},
    no_such_place,
    cases,
    run,
};

}  // namespace nearfield::sim

// SCN2 of S0, section II.B: what reading the message buffer costs right after the call, and what it misses. invalid and
// preloaded say what the caches held before the call; base-invalid and base-preloaded are the same reading without one.
#include <algorithm>

#include "sim/scenarios/pair.hpp"

namespace nearfield::sim {
namespace {

constexpr int tag = 2;

struct Case {
  std::uint64_t bytes;
  bool preloaded, base;
  int times;
};

// One mark per repetition.
Task<> traverse_after(const Side& side, Case c) {
  const Buffer buffer(side.rank.allocate(c.bytes), c.bytes);
  for (int i = 0; i < c.times; ++i) {
    co_await side.rank.prepare(buffer, c.preloaded ? BufferState::exclusive : BufferState::invalid);
    co_await side.rank.line_up();
    if (!c.base && side.first) co_await side.rank.wait(side.rank.send(side.peer, buffer, tag));
    if (!c.base && !side.first) co_await side.rank.wait(side.rank.receive(side.peer, buffer, tag));
    side.rank.start();
    co_await side.rank.read(buffer.address, c.bytes);
    side.rank.stop();
  }
}

void add_side(std::vector<Result>& results, const Machine& machine, const char* side, const Mark& mark) {
  results.push_back({"traverse", "ns", side, elapsed_ns(mark), ""});
  add_counters(results, machine, side, mark.seen);
}

std::vector<Result> run(const Machine& machine, const Place& place, const Parameters& parameters) {
  const std::int64_t size = number(parameters, "size_bytes");
  const std::string state = word(parameters, "state");
  const bool base = state.starts_with("base-");
  const bool preloaded = (base ? state.substr(5) : state) == "preloaded";
  const Case c{static_cast<std::uint64_t>(size), preloaded, base, repetitions(size)};
  const PairMarks marks = run_pair(machine, place, c.times, [&](const Side& side) { return traverse_after(side, c); });
  std::vector<Result> results;
  add_side(results, machine, "sender", marks.sender.back());
  add_side(results, machine, "receiver", marks.receiver.back());
  return results;
}

std::vector<Parameters> cases(const Machine& machine, const Place&, const SizeChoice& choice) {
  std::vector<Parameters> list;
  for (const auto size : size_ladder(choice, 64, std::min(2 * llc_bytes(machine), largest_message(machine, choice))))
    for (const char* state : {"invalid", "preloaded", "base-invalid", "base-preloaded"})
      list.push_back({{"size_bytes", size}, {"state", state}});
  return list;
}

}  // namespace

const ScenarioSpec pollution_scenario{
    "pollution",
    "Reading the message buffer right after Send or Recv, against reading it without a call",
    true,
    {{"size_bytes", "message size"},
     {"state", "before the call: invalid, preloaded; without a call: base-invalid, base-preloaded"}},
    {{"traverse", "ns", "reading the whole buffer once, in order"}},
    no_such_place,
    cases,
    run,
};

}  // namespace nearfield::sim

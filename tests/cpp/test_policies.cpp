// Where does each policy place lines? One message to a node, computed by hand: 128-byte lines, the buffer begins 32
// bytes into a line.
#include <stdexcept>
#include <string>

#include "check.hpp"
#include "sim/memory/memory.hpp"
#include "sim/nic/policy.hpp"
#include "sim/node/node.hpp"
#include "sim/run/cluster.hpp"
#include "test_machine.hpp"

namespace {

using namespace nearfield::sim;
using nearfield::Machine;

constexpr std::uint64_t line = 128;

// The counts at the receiver of one message, which does not touch the payload.
struct Left {
  int l2_lines = 0, l3_lines = 0;    // lines of the payload
  Count l2 = 0, l3 = 0;              // injected lines, including events
  bool first = false, last = false;  // the first and the last line, which it covers partly
  bool clean = true;
  Count dma_writes = 0, events = 0;
};

Left after_one_message(const std::string& policy, std::uint64_t bytes, int steered = -1,
                       Machine machine = test_machine()) {
  machine.messaging.network = "zero-copy";
  ClusterOptions options;
  options.nodes = 2;
  options.placement_policy_names = {"memory", policy};
  Cluster cluster(machine, options);
  Address begin = 0;
  const Outcome outcome = cluster.run([&](Rank& rank) -> Task<> {
    const Buffer buffer(rank.allocate(bytes + 64) + 32, bytes);
    if (rank.rank() == 1) begin = buffer.address;
    if (rank.rank() == 1 && steered >= 0) rank.steer(buffer.address, bytes, steered);
    if (rank.rank() == 0) co_await rank.wait(rank.send(1, buffer, 0));
    if (rank.rank() == 1) co_await rank.wait(rank.receive(0, buffer, 0));
  });
  Left left;
  const NodeMemory& memory = cluster.node(1).memory();
  for (Address at = begin / line * line; at < begin + bytes; at += line) {
    const auto l2 = memory.cached_copy_state(0, 1, at, 1), l3 = memory.cached_copy_state(0, 2, at, 1);
    left.l2_lines += l2.present;
    left.l3_lines += l3.present;
    left.clean = left.clean && !l2.modified && !l3.modified;
    if (at < begin) left.first = l2.present || l3.present;
    left.last = l2.present || l3.present;
  }
  const Counts counts = cluster.node(1).counts(1);  // without those of empty polls, which only the outcome includes
  left.l2 = counts.levels[1].injections;
  left.l3 = counts.levels[2].injections;
  left.dma_writes = counts.dram.dma_writes;
  left.events = outcome.variants[1].nic_counts_by_node[1].events;
  // The baseline, which is simulated in the same run, injects nothing.
  CHECK(outcome.variants[0].memory.levels[1].injections + outcome.variants[0].memory.levels[2].injections == 0);
  CHECK(!cluster.node(1).memory().cached_copy_state(0, 2, begin).present);
  return left;
}

// 1000 bytes that begin 32 bytes into a line: a part of 96 bytes, seven whole lines, a part of 8 bytes; and one event,
// which is an entry of the queue or the answer to a poll.
void each_policy_by_hand(nearfield::Polling polling) {
  const auto left = [polling](const std::string& policy, int steered = -1) {
    Machine machine = test_machine();
    machine.nic->polling = polling;
    return after_one_message(policy, 1000, steered, machine);
  };
  const Left memory = left("memory");
  CHECK(memory.l2 == 0 && memory.l3 == 0 && memory.l2_lines == 0 && memory.l3_lines == 0);
  CHECK(memory.dma_writes == 10 && memory.events == 1);

  const Left header = left("header-l2");
  CHECK(header.l2 == 1 && header.l3 == 0 && header.l2_lines == 0 && header.l3_lines == 0);

  const Left payload = left("payload-l3");
  CHECK(payload.l2 == 0 && payload.l3 == 7 && payload.l3_lines == 7 && payload.l2_lines == 0);
  CHECK(!payload.first && !payload.last && payload.clean);
  CHECK(payload.dma_writes == 10);  // to memory, too

  const Left both = left("header-payload");
  CHECK(both.l2 == 1 && both.l3 == 7 && both.l3_lines == 7);

  const Left ddio = left("ddio");
  CHECK(ddio.l2 == 0 && ddio.l3 == 8 && ddio.l3_lines == 7);

  CHECK(left("tph").l3_lines == 0);
  const Left steered = left("tph", 2);
  CHECK(steered.l2 == 1 && steered.l3_lines == 7);
  CHECK(left("tph:header=0", 1).l2 == 7);
  CHECK(left("tph:header=3", 0).l3 == 1);
}

// Partial lines go to memory, and so do messages of more than half the L3.
void sizes_that_are_not_injected() {
  CHECK(after_one_message("payload-l3", 95).l3 == 0);
  CHECK(after_one_message("payload-l3", 0).l3 == 0);
  const std::uint64_t half = test_machine().caches[2].size_bytes / 2;
  CHECK(after_one_message("payload-l3", half).l3 == half / line - 1);
  CHECK(after_one_message("payload-l3", half + 1).l3 == 0);
  CHECK(after_one_message("header-payload", half + 1).l3 == 0);
  CHECK(after_one_message("header-payload", half + 1).l2 == 1);
}

// DDIO uses only its ways: an L3 of 256 sets keeps at most 256 lines per way of a long message.
void ddio_uses_only_the_ddio_ways() {
  const auto l3_lines_after = [](const char* policy) { return after_one_message(policy, 200000).l3_lines; };
  CHECK(l3_lines_after("ddio:ways=1") <= 256);
  CHECK(l3_lines_after("ddio:ways=1") > 200);
  CHECK(l3_lines_after("ddio") <= 512);
  CHECK(l3_lines_after("ddio") > 400);
  CHECK(l3_lines_after("ddio:ways=8") > 1500);
}

// The adaptive policy injects small messages near the core, medium ones into the last level, long ones not at all.
void adaptive_goes_by_size() {
  const Left small = after_one_message("adaptive", 1000);
  CHECK(small.l2 == 8 && small.l3 == 0);
  const Left middle = after_one_message("adaptive", 5000);
  CHECK(middle.l2 == 1 && middle.l3 == 38);
  const Left large = after_one_message("adaptive", 140000);
  CHECK(large.l2 == 1 && large.l3 == 0);
  CHECK(after_one_message("adaptive:small_bytes=100", 1000).l3 == 7);
}

// If injected lines are evicted unused, it pauses for some windows; if they are used, it does not.
void adaptive_stops_leaking() {
  const auto injected = [](const char* policy, bool use) {
    Machine machine = test_machine();
    machine.messaging.network = "zero-copy";
    ClusterOptions options;
    options.nodes = 2;
    options.placement_policy_names = {policy};
    const Outcome outcome = Cluster(machine, options).run([use](Rank& rank) -> Task<> {
      constexpr std::uint64_t bytes = 100000;
      for (int i = 0; i < 20; ++i) {
        const Buffer buffer(rank.allocate(bytes), bytes);
        if (rank.rank() == 0) co_await rank.wait(rank.send(1, buffer, 0));
        if (rank.rank() == 1) co_await rank.wait(rank.receive(0, buffer, 0));
        if (rank.rank() == 1 && use) co_await rank.read(buffer.address, bytes);
      }
    });
    return outcome.variants[0].memory.levels[2].injections;
  };
  const Count all = 20 * (100000 / line);
  CHECK(injected("adaptive:small_bytes=0", true) == all);
  CHECK(injected("adaptive:small_bytes=0", false) < all / 2);
  CHECK(injected("adaptive:small_bytes=0,leak_percent=100", false) == all);
}

std::string refusal(const std::string& policy, std::size_t levels) {
  Machine machine = test_machine();
  machine.caches.resize(levels);
  try {
    const PolicyChoice choice(policy, machine);
    static_cast<void>(choice.make_policy(machine));
  } catch (const std::invalid_argument& problem) {
    return problem.what();
  }
  return "";
}

bool names(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return true;
  std::printf("'%s' does not say '%s'\n", text.c_str(), part.c_str());
  return false;
}

// Is a policy refused that needs a missing cache level, with those that would work, and is an unknown one refused?
void what_cannot_be_is_refused() {
  CHECK(names(refusal("payload-l3", 2),
              "cache level 3, machine 'made-up' has 2; these would work: memory, header-l2, ddio"));
  for (const char* name : {"memory", "ddio", "tph", "adaptive"}) CHECK(names(refusal("header-l2", 1), name));
  CHECK(names(refusal("ddio", 0), "these would work: memory"));
  CHECK(names(refusal("payload", 3), "nearest is 'payload-l3'"));
  CHECK(names(refusal("ddio:way=2", 3), "nearest is 'ways'"));
  CHECK(names(refusal("ddio:ways=0", 3), "from 1 to"));
  for (const char* text : {"ddio:ways", "ddio:ways=", "ddio:ways=2x", "ddio:ways=99999999999999999999", "ddio:ways=-1"})
    CHECK(names(refusal(text, 3), "ways is a whole number"));
  CHECK(names(refusal("ddio:", 3), "no parameter ''"));
  CHECK(names(refusal("memory:ways=2", 3), "no parameter 'ways'"));
  CHECK(names(refusal("adaptive:window=5,", 3), "no parameter ''"));
  CHECK(names(refusal("", 3), "there is no policy ''"));
  for (const auto* spec : all_policies()) CHECK(refusal(spec->name, 3).empty());
}

// Are empty polls faster if events are in a cache than if they are in memory, the more so the slower the memory is?
// With header-l2, `held` of them remain with the slowest memory: an answer goes to memory, too, and is visible
// afterwards.
void polling_follows_memory(nearfield::Polling polling, int rounds, double held) {
  Machine machine = test_machine();
  machine.nic->polling = polling;
  machine.messaging.network = "zero-copy";
  ClusterOptions options;
  options.nodes = 2;
  options.placement_policy_names = {"memory", "header-l2"};
  options.memory_slowdown = {1, 2.5, 5, 7.5};
  const Outcome outcome = Cluster(machine, options).run([rounds](Rank& rank) -> Task<> {
    const Buffer buffer(rank.allocate(8), 8);
    for (int i = 0; i < rounds; ++i) {
      if (rank.rank() == i % 2) co_await rank.wait(rank.send(1 - i % 2, buffer, 0));
      if (rank.rank() != i % 2) co_await rank.wait(rank.receive(i % 2, buffer, 0));
    }
  });
  const auto &memory = outcome.variants[0].nic.empty_polls, &header = outcome.variants[1].nic.empty_polls;
  CHECK(memory[0] < header[0]);
  CHECK(memory[3] < memory[0] / 2);
  CHECK(static_cast<double>(header[3]) > static_cast<double>(header[0]) * held);
  CHECK(outcome.variants[0].nic.events == outcome.variants[1].nic.events);
  // A poll reads an entry in a cache, or is a command whose answer the core reads from memory.
  const auto& at = outcome.variants[0].memory_counts_by_speed;
  const auto fewer_reads = at[0].dram.reads - at[3].dram.reads, fewer_polls = memory[0] - memory[3];
  CHECK(polling == nearfield::Polling::command ? fewer_reads >= fewer_polls : fewer_reads == 0);
}

// Does a device wait for the DRAM latency once, however much it reads, at every memory speed, and not for cached lines?
// DRAM takes 100 ns, 40 of them on the core's path through its caches, and 12.8 ns for a line.
void reading_waits_for_memory() {
  NodeMemory memory(test_machine(), {1, 2.5, 5, 7.5});
  constexpr double slowdown[] = {1, 2.5, 5, 7.5};
  const auto after = [&](std::uint64_t address, std::uint64_t bytes, double expected_ns) {
    const ConfigClock start = memory.clock(0) + 1e9;
    const ConfigClock done = memory.dma_read(address, bytes, start);
    memory.wait_until(0, done);
    for (int speed = 0; speed < num_memory_speeds; ++speed)
      CHECK(done[0][speed] - start[0][speed] == expected_ns * 1e3 * slowdown[speed]);
  };
  after(0, line, 60 + 12.8);
  after(0, 10 * line, 60 + 128);
  after(0, 0, 0);
  memory.access(0, Access::load, 5 * line, 8);
  memory.drain(0);
  after(5 * line, line, 0);
  after(4 * line, 3 * line, 60 + 25.6);
}

}  // namespace

int main() {
  each_policy_by_hand(nearfield::Polling::queue);
  each_policy_by_hand(nearfield::Polling::command);
  sizes_that_are_not_injected();
  ddio_uses_only_the_ddio_ways();
  adaptive_goes_by_size();
  adaptive_stops_leaking();
  what_cannot_be_is_refused();
  polling_follows_memory(nearfield::Polling::queue, 100, 0.9);
  polling_follows_memory(nearfield::Polling::command, 1000, 0.7);
  reading_waits_for_memory();
  return failed_checks == 0 ? 0 : 1;
}

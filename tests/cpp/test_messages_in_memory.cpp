// Do messages between simulated ranks load and store the lines that their protocol says, while cores go on?
#include <algorithm>
#include <span>
#include <vector>

#include "check.hpp"
#include "rank_programs.hpp"
#include "sim/memory/memory.hpp"
#include "sim/node/node.hpp"
#include "test_machine.hpp"

namespace {

using namespace nearfield::sim;
using nearfield::Machine;

// Returns whether a core's caches hold a line.
bool holds(Cluster& cluster, int node, int core, Address address) {
  return cluster.node(node).memory().cached_copy_state(core, 0, address).present;
}

// Between nodes: eager leaves the data in both cores' caches; zero copy and rendezvous leave nothing, and invalidate
// the receiver's copies (S0.3, S0.5).
void who_touches_what_between_nodes() {
  for (const char* way : {"eager-rendezvous", "rendezvous", "zero-copy"}) {
    Machine machine = test_machine();
    machine.messaging.network = way;
    Cluster cluster(machine, options(2, 1, true));
    Address buffers[2] = {};
    cluster.run([&](Rank& rank) -> Task<> {
      const Buffer buffer(rank.allocate(1024), 1024);
      buffers[rank.rank()] = buffer.address;
      co_await rank.prepare_buffer(buffer, rank.rank() == 1 ? BufferState::modified : BufferState::invalid);
      co_await rank.barrier();
      if (rank.rank() == 0) co_await rank.wait(rank.send(1, buffer, 0));
      if (rank.rank() == 1) co_await rank.wait(rank.receive(0, buffer, 0));
    });
    const bool copies = way[0] == 'e';
    CHECK(holds(cluster, 0, 0, buffers[0] + 896) == copies);
    CHECK(holds(cluster, 1, 0, buffers[1] + 896) == copies);
  }
}

// Do pieces of a long message arrive at their addresses? They invalidate the last line in the receiver's cache.
void pieces_arrive_in_their_places() {
  constexpr std::uint64_t bytes = 600000;
  Machine machine = test_machine();
  machine.messaging.network = "rendezvous";
  Cluster cluster(machine, options(2, 1, true));
  Address end = 0;
  const Outcome outcome = cluster.run([&](Rank& rank) -> Task<> {
    const Buffer buffer(rank.allocate(bytes), bytes);
    const Buffer last(buffer.address + bytes - 64, 64);
    co_await rank.prepare_buffer(last, BufferState::modified);
    if (rank.rank() == 0) co_await rank.wait(rank.send(1, buffer, 0));
    if (rank.rank() == 1) {
      end = last.address;
      CHECK(holds(cluster, 1, 0, end));
      co_await rank.wait(rank.receive(0, buffer, 0));
    }
  });
  CHECK(!holds(cluster, 1, 0, end));
  CHECK(outcome.variants[0].nic.written_bytes == bytes);
  CHECK(outcome.messages == 1 + 3 + 3);
}

// Is a payload written as it arrives? In the middle of 64 us the receiver's cache still has the last line of its
// buffer, but no longer the first one.
void a_payload_takes_time() {
  Machine machine = test_machine();
  machine.messaging.network = "zero-copy";
  Cluster cluster(machine, options(2, 1, true));
  cluster.run([&](Rank& rank) -> Task<> {
    const Buffer buffer(rank.allocate(1 << 16), 1 << 16);
    const Address first = buffer.address, last = buffer.address + buffer.bytes() - 128;
    co_await rank.prepare_buffer(Buffer(first, 128), BufferState::modified);
    co_await rank.prepare_buffer(Buffer(last, 128), BufferState::modified);
    co_await rank.barrier();
    if (rank.rank() == 0) co_await rank.wait(rank.send(1, buffer, 0));
    if (rank.rank() == 1) {
      const auto arrives = rank.receive(0, buffer, 0);
      co_await rank.sweep(Access::load, rank.allocate(8), 32'000, 0, 8);
      CHECK(!holds(cluster, 1, 0, first) && holds(cluster, 1, 0, last));
      co_await rank.wait(arrives);
      CHECK(!holds(cluster, 1, 0, last));
    }
  });
}

// Does the NIC write in the middle of a long loop, which loads one line repeatedly that the message invalidates?
void devices_act_during_a_loop() {
  Machine machine = test_machine();
  machine.messaging.network = "zero-copy";
  const auto run = [&](bool as_span) {
    return Cluster(machine, options(2, 1, true)).run([as_span](Rank& rank) -> Task<> {
      const Buffer buffer(rank.allocate(128), 128);
      if (rank.rank() == 0) co_await rank.wait(rank.send(1, buffer, 0));
      if (rank.rank() == 1) {
        const auto arrives = rank.receive(0, buffer, 0);
        const Sweep loop{.bytes = 8, .address = buffer.address, .count = 100'000};
        if (as_span) co_await rank.sweep(std::span(&loop, 1));
        if (!as_span) co_await rank.sweep(loop.kind, loop.address, loop.count, loop.stride_bytes, loop.bytes);
        co_await rank.wait(arrives);
      }
    });
  };
  const Outcome span = run(true), plain = run(false);
  CHECK(span.variants[0].memory.dram.reads == plain.variants[0].memory.dram.reads);
  CHECK(plain.variants[0].memory.dram.reads >= 2);
  CHECK(span.ranks[1].finish_time.first() == plain.ranks[1].finish_time.first());
}

// Within a node: with a single copy the receiver's core has read the sender's buffer; through the ring it has not.
void who_touches_what_within_a_node() {
  for (const char* way : {"copy-in-copy-out", "single-copy"}) {
    Machine machine = test_machine();
    machine.messaging.node = way;
    Cluster cluster(machine, options(1, 2, true));
    Address sent = 0, received = 0;
    cluster.run([&](Rank& rank) -> Task<> {
      const Buffer buffer(rank.allocate(1536), 1536);
      (rank.rank() == 0 ? sent : received) = buffer.address;
      if (rank.rank() == 0) co_await rank.wait(rank.send(1, buffer, 0));
      if (rank.rank() == 1) co_await rank.wait(rank.receive(0, buffer, 0));
    });
    const bool single = way[0] == 's';
    CHECK(holds(cluster, 0, 0, sent + 1408) == !single);
    CHECK(holds(cluster, 0, 1, sent + 1408) == single);
    CHECK(holds(cluster, 0, 1, received + 1408));
  }
}

// Do cores work concurrently that share only a memory with sufficient bandwidth?
void cores_work_side_by_side() {
  Machine machine = test_machine();
  machine.dram.gb_per_s = 1000;
  const auto outcome = Cluster(machine, options(1, 4, true)).run([](Rank& rank) -> Task<> {
    const Address a = rank.allocate(100000), b = rank.allocate(100000);
    if (rank.rank() < 3) co_await rank.copy(a, b, 100000);
    if (rank.rank() == 3) co_await rank.wait({});
  });
  const Ps alone = Cluster(machine, options(1, 4, true))
                       .run([](Rank& rank) -> Task<> {
                         const Address a = rank.allocate(100000), b = rank.allocate(100000);
                         if (rank.rank() == 0) co_await rank.copy(a, b, 100000);
                       })
                       .ranks[0]
                       .finish_time.first();
  CHECK(outcome.ranks[2].finish_time.first() < 1.1 * alone);
}

// Ranks that post many sends and receives in a row run ahead of the others. Does that delay no rank: does memory add
// about as much time with two ranks on a node as with one?
void being_ahead_delays_no_rank() {
  Machine machine = test_machine();
  machine.messaging.network = "zero-copy";
  machine.network->gap_ns = 0;
  const auto time = [&](int ranks_per_node, bool memory) {
    const Outcome outcome = Cluster(machine, options(8, ranks_per_node, memory)).run([](Rank& rank) -> Task<> {
      const int ranks = rank.size(), me = rank.rank();
      std::vector<Request> requests;
      for (int i = 1; i < ranks; ++i) requests.push_back(rank.receive((me + i) % ranks, {rank.allocate(256), 256}, 0));
      for (int i = 1; i < ranks; ++i) requests.push_back(rank.send((me + i) % ranks, {rank.allocate(256), 256}, 0));
      co_await rank.wait_all(requests);
    });
    return outcome.ranks[0].finish_time.first();
  };
  const double one = time(1, true) / time(1, false), two = time(2, true) / time(2, false);
  CHECK(one > 1 && two > 1 && two < 1.5 * one);
}

// Does the ring throttle a fast sender? Its data is cached, the receiver's buffer is in memory: the sender finishes at
// most one ring before the receiver.
void the_ring_holds_the_sender_back() {
  constexpr std::uint64_t bytes = 100000;
  const Outcome outcome = Cluster(test_machine(), options(1, 2, true)).run([](Rank& rank) -> Task<> {
    const Buffer buffer(rank.allocate(bytes), bytes);
    co_await rank.prepare_buffer(buffer, rank.rank() == 0 ? BufferState::modified : BufferState::invalid);
    co_await rank.barrier();
    rank.start_mark();
    if (rank.rank() == 0) co_await rank.wait(rank.send(1, buffer, 0));
    if (rank.rank() == 1) co_await rank.wait(rank.receive(0, buffer, 0));
    rank.stop_mark();
  });
  const auto took = [&](std::size_t rank) {
    return outcome.ranks[rank].marks[0].stop.first() - outcome.ranks[rank].marks[0].start.first();
  };
  CHECK(took(0) < took(1));
  CHECK(took(0) > 0.85 * took(1));
}

// Do the two sides of copy-in-copy-out overlap: is a long message faster than both copies one after the other?
void the_ring_is_a_pipeline() {
  constexpr std::uint64_t bytes = 1 << 20;
  Machine machine = test_machine();
  machine.dram.gb_per_s = 1000;  // otherwise both would wait for the shared memory
  const auto time = [&](const Program& program) {
    const Outcome outcome = Cluster(machine, options(1, 2, true)).run(program);
    return std::max(outcome.ranks[0].finish_time.first(), outcome.ranks[1].finish_time.first());
  };
  const Ps copied = time([](Rank& rank) -> Task<> {
    const Address a = rank.allocate(bytes), b = rank.allocate(bytes);
    if (rank.rank() == 0) co_await rank.copy(a, b, bytes);
  });
  CHECK(time(one_message(bytes)) < 1.3 * copied);
}

}  // namespace

int main() {
  who_touches_what_between_nodes();
  pieces_arrive_in_their_places();
  a_payload_takes_time();
  devices_act_during_a_loop();
  who_touches_what_within_a_node();
  cores_work_side_by_side();
  being_ahead_delays_no_rank();
  the_ring_holds_the_sender_back();
  the_ring_is_a_pipeline();
  return failed_checks == 0 ? 0 : 1;
}

// Do messages match the receives of the MPI standard: by communicator, from any source, with any tag, after a probe?
// Does nonblocking work progress while the program waits?
#include <stdexcept>
#include <string>

#include "check.hpp"
#include "sim/mpi/endpoint.hpp"
#include "sim/run/cluster.hpp"
#include "test_machine.hpp"

namespace {

using namespace nearfield::sim;
using nearfield::Machine;

struct Way {
  const char* network;
  const char* node;
  int nodes;
};
constexpr Way ways[] = {
    {"eager-rendezvous", "copy-in-copy-out", 3}, {"zero-copy", "copy-in-copy-out", 3},
    {"synchronous", "copy-in-copy-out", 3},      {"buffered", "copy-in-copy-out", 3},
    {"eager-rendezvous", "copy-in-copy-out", 1}, {"eager-rendezvous", "single-copy", 1},
};

Outcome run(const Way& way, const Program& program) {
  Machine machine = test_machine();
  machine.messaging.network = way.network;
  machine.messaging.node = way.node;
  ClusterOptions options;
  options.nodes = way.nodes;
  options.ranks_per_node = 3 / way.nodes;
  options.placement_policy_names = {"memory", "header-l2"};
  return Cluster(machine, options).run(program);
}

// Returns the error's text; empty if there is none. A receive that is shorter than its message is an error, so lengths
// identify the message that a receive matched.
std::string problem_of(const Way& way, const Program& program) {
  try {
    run(way, program);
    return "";
  } catch (const std::exception& problem) {
    return problem.what();
  }
}

void no_problem(const Program& program) {
  for (const Way& way : ways) {
    const std::string problem = problem_of(way, program);
    if (!problem.empty()) std::printf("%s, %s: %s\n", way.network, way.node, problem.c_str());
    CHECK(problem.empty());
  }
}

constexpr std::uint64_t large = 5000;  // above all eager limits

Buffer memory(Rank& rank, std::uint64_t bytes) { return {rank.allocate(bytes), bytes}; }

// Are messages of two communicators with the same tag matched separately?
void contexts_are_separate() {
  for (const bool early : {false, true})
    no_problem([early](Rank& rank) -> Task<> {
      if (rank.rank() == 0) {
        if (!early) rank.compute(1e7);
        const Request requests[]{rank.send(1, memory(rank, large), 4, 7), rank.send(1, memory(rank, 8), 4, 9)};
        co_await rank.wait_all(requests);
      } else if (rank.rank() == 1) {
        if (early) rank.compute(1e7);
        const Request requests[]{rank.receive(0, memory(rank, 8), 4, 9), rank.receive(0, memory(rank, large), 4, 7)};
        co_await rank.wait_all(requests);
      }
    });
}

// Does a receive from any source with any tag match the oldest message of its communicator, and is the oldest receive
// matched first?
void wildcards_take_the_oldest() {
  for (const bool early : {false, true})
    no_problem([early](Rank& rank) -> Task<> {
      if (rank.rank() == 2) rank.compute(4e7);
      if (rank.rank() > 0) {
        if (!early) rank.compute(1e8);
        co_await rank.wait(rank.send(0, memory(rank, 5), 3, 1));  // for the last receive
        co_await rank.wait(rank.send(0, memory(rank, rank.rank() == 1 ? 8 : large), rank.rank(), 0));
        co_return;
      }
      if (early) rank.compute(1e8);
      const Request requests[]{
          rank.receive(any_rank, memory(rank, 8), any_tag), rank.receive(2, memory(rank, large), any_tag),
          rank.receive(any_rank, memory(rank, 5), 3, 1), rank.receive(any_rank, memory(rank, 5), any_tag, 1)};
      co_await rank.wait_all(requests);
    });
}

// Does a probe return when the message has arrived, which is then still unexpected, at every speed and policy?
void probes_wait() {
  no_problem([](Rank& rank) -> Task<> {
    if (rank.rank() == 1) {
      rank.compute(1e7);
      co_await rank.wait(rank.send(0, memory(rank, large), 6));
    } else if (rank.rank() == 0) {
      co_await rank.endpoint().probe({any_rank, 6, 0});
      const ConfigClock probed = rank.now();
      for (const TimeVector& times : probed)
        for (int speed = 0; speed < num_memory_speeds; ++speed) CHECK(times[speed] > 1e7);
      co_await rank.endpoint().probe({1, any_tag, 0});
      co_await rank.wait(rank.receive(1, memory(rank, large), 6));
    }
  });
  const std::string never = problem_of(ways[0], [](Rank& rank) -> Task<> {
    static const std::string name = "MPI_Probe";  // which outlives the rank
    rank.endpoint().set_current_call(&name);
    if (rank.rank() == 0) co_await rank.endpoint().probe({any_rank, 6, 0});
  });
  CHECK(never == "rank 0 waits in MPI_Probe for a message from any rank with tag 6");
}

// Does a poll handle all packets that have arrived, without waiting for others?
void polls_do_not_wait() {
  no_problem([](Rank& rank) -> Task<> {
    if (rank.rank() == 0) {
      const Request receiving = rank.receive(1, memory(rank, 8), 1);
      co_await rank.endpoint().poll_packets();
      CHECK(!receiving.state->is_done);
      for (int i = 0; i < 3; ++i) {  // a long message takes an RTS, a CTS and the data
        rank.compute(1e8);
        co_await rank.endpoint().poll_packets();
      }
      CHECK(receiving.state->is_done);
      co_await rank.wait(receiving);
    } else if (rank.rank() == 1) {
      co_await rank.wait(rank.send(0, memory(rank, 8), 1));
    }
  });
}

// Is a forced match counted as ambiguous if and only if another sender's message arrived before its own?
void ambiguous_matches_are_counted() {
  for (const bool posted_first : {false, true})
    no_problem([posted_first](Rank& rank) -> Task<> {
      Endpoint& me = rank.endpoint();
      if (rank.rank() > 0) {
        rank.compute(rank.rank() == 1 ? 2e7 : 1e7);
        co_await rank.wait(rank.send(0, memory(rank, 8), 1));
        co_return;
      }
      if (!posted_first) rank.compute(1e8);
      const Request one = me.receive({1, 1, 0}, memory(rank, 8), Pattern{any_rank, any_tag, 0});
      co_await rank.wait(one);
      CHECK(me.ambiguous_matches() == 1);
      co_await rank.wait(me.receive({2, 1, 0}, memory(rank, 8), Pattern{any_rank, 1, 0}));
      CHECK(me.ambiguous_matches() == 1);
    });
}

// Does a synchronous send of any size complete only when it is received?
void synchronous_sends_wait() {
  for (const Way& way : ways) {
    const Outcome outcome = run(way, [](Rank& rank) -> Task<> {
      if (rank.rank() == 0) co_await rank.wait(rank.endpoint().send({1, 1, 0}, memory(rank, 8), true));
      if (rank.rank() == 1) rank.compute(1e8);
      if (rank.rank() == 1) co_await rank.wait(rank.receive(0, memory(rank, 8), 1));
    });
    const std::string name = way.network;
    const bool asks = way.nodes == 1 || (name != "buffered" && name != "zero-copy");
    CHECK((outcome.ranks[0].finish_time.first() > 1e8) == asks);
  }
}

// Does nonblocking work progress while the program waits for a message that depends on it?
void nonblocking_work_progresses() {
  no_problem([](Rank& rank) -> Task<> {
    if (rank.rank() == 2) co_return;
    Endpoint& me = rank.endpoint();
    const int other = 1 - rank.rank();
    AsyncProgressTask task;
    const auto exchange = [](Rank& rank, AsyncProgressTask& work, int peer) -> Task<> {
      for (int round = 0; round < 3; ++round) {
        const Request receiving = rank.receive(peer, memory(rank, large), round, 5);
        const Request sending = rank.send(peer, memory(rank, large), round, 5);
        co_await rank.endpoint().wait(work, sending);
        co_await rank.endpoint().wait(work, receiving);
        co_await rank.read(rank.allocate(1000), 1000);
      }
    };
    task.work = exchange(rank, task, other);
    co_await me.begin_collective(task);
    CHECK(!task.is_over);
    if (rank.rank() == 0) {
      co_await rank.wait(rank.receive(1, memory(rank, 8), 1));  // which the other rank sends after its work
      CHECK(task.is_over);
    } else {
      co_await me.wait(task);
      co_await rank.wait(rank.send(0, memory(rank, 8), 1));
    }
    co_await me.wait(task);
  });
}

}  // namespace

int main() {
  contexts_are_separate();
  wildcards_take_the_oldest();
  probes_wait();
  polls_do_not_wait();
  ambiguous_matches_are_counted();
  synchronous_sends_wait();
  nonblocking_work_progresses();
  return failed_checks == 0 ? 0 : 1;
}

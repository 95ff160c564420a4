// Are results of the window scheduler independent of the numbers of host threads and shards? Shards are threads of one
// process here, which exchange bytes as processes would. tests/injected_bugs/windows.toml has mistakes that this must
// notice; with an argument it prints a program's digits and nothing else.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "check.hpp"
#include "race_writer.hpp"
#include "sim/engine/thread_pool.hpp"
#include "sim/run/replay/run.hpp"
#include "test_machine.hpp"

namespace {

using namespace nearfield;
using namespace nearfield::sim;
ClusterOptions cluster(int nodes, int ranks_per_node, int threads) {
  ClusterOptions options;
  options.nodes = nodes;
  options.ranks_per_node = ranks_per_node;
  options.placement_policy_names = {"memory", "header-payload"};
  options.memory_slowdown = {1, 2.5, 5, 7.5};
  options.needs_core_counters = true;
  options.threads = threads;
  options.min_parallel_window_us = 0;
  return options;
}

// Runs the streams; each shard reads those of its own ranks only.
replay::ReplayResult run(const Machine& machine, const ClusterOptions& options, Streams all) {
  std::vector<replay::RankStream> sources;
  const NodeRange local_nodes =
      options.shards ? options.shards->nodes_of_this_shard(options.nodes) : NodeRange{0, options.nodes};
  for (auto& one : all)
    if (local_nodes.contains(static_cast<int>(sources.size()) / options.ranks_per_node))
      sources.push_back({&one, [again = one] { return std::make_unique<StreamBuilder>(again); }, {}});
    else
      sources.emplace_back();
  return replay::run_replay(machine, options, sources, {});
}

// An allgather of shards that are threads: the last one to arrive distributes all contributions.
class MeetingPlace {
 public:
  explicit MeetingPlace(int shards) : brought_(static_cast<std::size_t>(shards)) {}

  std::vector<std::string> exchange(std::size_t shard, const std::string& mine) {
    std::unique_lock lock(mutex_);
    brought_[shard] = mine;
    const std::uint64_t meeting = meetings_;
    if (++there_ < brought_.size()) {
      all_are_there_.wait(lock, [&] { return meetings_ > meeting; });
    } else {
      given_ = brought_;
      there_ = 0;
      ++meetings_;
      all_are_there_.notify_all();
    }
    return given_;  // the next round cannot complete before all have this result
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_are_there_;
  std::vector<std::string> brought_, given_;
  std::size_t there_ = 0;
  std::uint64_t meetings_ = 0;
};

// Calls `work(shards)` for each shard, on its own thread. Returns the texts of their exceptions; empty: none.
std::vector<std::string> on_shards(int count, const std::function<void(Shards&)>& work) {
  const auto shards = static_cast<std::size_t>(count);
  std::vector<std::string> problems(shards);
  MeetingPlace place(count);
  std::vector<std::thread> threads;
  for (std::size_t me = 0; me < shards; ++me)
    threads.emplace_back([&, me] {
      Shards shard(static_cast<int>(me), count,
                   [&place, me](const std::string& mine) { return place.exchange(me, mine); });
      try {
        work(shard);
      } catch (const std::exception& problem) {
        shard.leave_run();
        problems[me] = problem.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return problems;
}

// ---- all results of a run

class Digits {
 public:
  explicit Digits(const replay::ReplayResult& run) : events_(run.cluster.events) {
    add(run.bin_ps, run.cluster.messages, run.cluster.bytes);
    for (const auto& rank : run.cluster.ranks) {
      add(rank.finish_time);
      add(rank.time_in_calls.send_time);
      add(rank.time_in_calls.receive_time);
      add(rank.time_in_calls.wait_time);
    }
    for (const auto& variant : run.cluster.variants) {
      for (const Counts& counts : variant.memory_counts_by_speed) add(counts);
      for (const NicCounts& nic : variant.nic_counts_by_node) {
        add(nic.commands, nic.events, nic.read_bytes, nic.written_bytes);
        for (const Count polls : nic.empty_polls) add(polls);
      }
    }
    for (const auto& rank : run.ranks) {
      add(rank.accesses, rank.timing_sensitivity.ambiguous_matches, rank.timing_sensitivity.from_any,
          rank.timing_sensitivity.polls);
      add(rank.computing);
      for (const auto& call : rank.calls) {
        add(call.spent);
        for (const Ps part : call.timeline) add(part);
      }
    }
  }
  friend bool operator==(const Digits&, const Digits&) = default;
  // Prints all results but the number of events, which depends on the windows.
  void print() const {
    for (const double number : all_) std::printf("%.17g\n", number);
  }

 private:
  template <class... Numbers>
    requires(std::is_arithmetic_v<Numbers> && ...)
  void add(Numbers... numbers) {
    (all_.push_back(static_cast<double>(numbers)), ...);
  }
  void add(const ConfigClock& clock) {
    for (const auto& times : clock)
      for (const Ps time : times.at) add(time);
  }
  void add(const Counts& counts) {
    for (const auto& level : counts.levels)
      add(level.hits, level.misses, level.evictions, level.injections, level.injected_unused, level.snoops);
    add(counts.dram.bytes, counts.dram.reads, counts.dram.writes, counts.transfers);
  }
  void add(const replay::TimeSpent& spent) {
    add(spent.num_intervals);
    add(spent.time);
    for (const Count misses : spent.counters.misses) add(misses);
    add(spent.counters.snoops, spent.counters.invalidations);
  }

  std::uint64_t events_;
  std::vector<double> all_;
};

struct Case {
  const char* protocol;
  const char* topology;
  std::vector<int> shape;
  int nodes_per_router, nodes, ranks_per_node;
};
const std::vector<Case> cases{{"eager-rendezvous", "full", {}, 1, 5, 1},
                              {"zero-copy", "torus", {3}, 2, 6, 1},
                              {"synchronous", "fat-tree", {2, 2}, 1, 4, 2},
                              {"buffered-synchronous", "full", {}, 2, 3, 2}};

Machine machine_of(const Case& tested) {
  Machine machine = test_machine();
  machine.messaging.network = tested.protocol;
  machine.network->topology = tested.topology;
  machine.network->shape = tested.shape;
  machine.network->nodes_per_router = tested.nodes_per_router;
  return machine;
}

Digits digits(const Case& tested, unsigned seed, int threads, Shards* shards = nullptr) {
  const auto ranks = static_cast<unsigned>(tested.nodes * tested.ranks_per_node);
  ClusterOptions options = cluster(tested.nodes, tested.ranks_per_node, threads);
  options.shards = shards;
  return Digits(run(machine_of(tested), options, RaceWriter(ranks, seed).program(25)));
}

// Are all times, counts and timelines identical to the last digit with one to four threads, and with more threads than
// nodes, for a program with wildcards, probes, tests and collectives, whose messages contend?
void threads_change_nothing() {
  for (const Case& tested : cases)
    for (unsigned seed = 1; seed <= 2; ++seed) {
      const Digits one = digits(tested, seed, 1);
      for (const int threads : {1, 2, 3, 64}) CHECK(digits(tested, seed, threads) == one);
    }
}

// Does the first shard have the same digits with any number of shards, with and without threads?
void shards_change_nothing() {
  for (const Case& tested : cases) {
    const Digits one = digits(tested, 1, 1);
    for (const int shards : {2, 3})
      for (const int threads : {1, 2}) {
        std::optional<Digits> first;
        const auto problems = on_shards(shards, [&](Shards& me) {
          const Digits found = digits(tested, 1, threads, &me);
          if (me.shard_number() == 0) first = found;
        });
        for (const std::string& problem : problems) CHECK(problem.empty());
        CHECK(first == one);
      }
  }
}

// ---- order

Outcome run(const Machine& machine, const ClusterOptions& options, const Program& program) {
  return Cluster(machine, options).run(program);
}

// Is the first message to depart the first to be carried, whatever the numbers of the nodes?
void the_first_departure_is_first() {
  Machine machine = test_machine();
  machine.messaging.network = "eager-rendezvous";
  machine.messaging.eager_bytes = 1 << 20;
  for (const int early : {1, 2}) {
    const Outcome outcome = run(machine, cluster(3, 1, 2), [early](Rank& rank) -> Task<> {
      const Buffer buffer(rank.allocate(100000), 100000);
      if (rank.rank() == 0) {
        const Request late = rank.receive(3 - early, buffer, 0), first = rank.receive(early, buffer, 0);
        co_await rank.wait(first);
        rank.start_mark();
        co_await rank.wait(late);
        rank.stop_mark();
      } else {
        if (rank.rank() != early) rank.compute(400e3);  // less than the latency
        co_await rank.wait(rank.send(0, buffer, 0));
      }
    });
    const Mark& between = outcome.ranks[0].marks[0];
    CHECK(between.stop.first() - between.start.first() > 30000e3);  // the late bytes arrive after the first ones
  }
}

// Does the barrier resume all ranks at the same time when the last one has arrived, on one node and on several?
void ranks_meet_at_a_barrier() {
  for (const auto& options : {cluster(4, 2, 2), cluster(1, 4, 2)}) {
    const Outcome outcome = run(test_machine(), options, [](Rank& rank) -> Task<> {
      for (int i = 0; i < 3; ++i) {
        rank.compute(1e6 * (rank.rank() * 7 % 5 + i));
        co_await rank.barrier();
        rank.start_mark();
        rank.stop_mark();
      }
    });
    for (std::size_t i = 0; i < 3; ++i)
      for (const auto& rank : outcome.ranks) CHECK(rank.marks[i].start == outcome.ranks[0].marks[i].start);
  }
}

// Do messages that depart from nodes of two shards at the same time enter the network in the order of the nodes?
void nodes_of_all_shards_have_one_order() {
  Machine machine = test_machine();
  machine.messaging.network = "eager-rendezvous";
  machine.messaging.eager_bytes = 1 << 20;
  const auto last_mark = [&](Shards* shards) {
    ClusterOptions options = cluster(4, 1, 1);
    options.shards = shards;
    return run(machine, options,
               [](Rank& rank) -> Task<> {
                 const Buffer buffer(rank.allocate(100000), 100000);
                 if (rank.rank() % 2 == 0) co_await rank.wait(rank.send(3, buffer, 0));
                 if (rank.rank() != 3) co_return;
                 co_await rank.wait(rank.receive(0, buffer, 0));
                 rank.start_mark();
                 co_await rank.wait(rank.receive(2, buffer, 0));
                 rank.stop_mark();
               })
        .ranks.back();
  };
  const RankOutcome alone = last_mark(nullptr);
  on_shards(2, [&](Shards& me) {
    const RankOutcome outcome = last_mark(&me);
    if (me.shard_number() == 1)
      CHECK(outcome.finish_time == alone.finish_time && outcome.marks[0].start == alone.marks[0].start);
  });
}

// Does the barrier resume ranks on several shards at the same time as on one?
void ranks_of_shards_meet_at_a_barrier() {
  const Program program = [](Rank& rank) -> Task<> {
    for (int i = 0; i < 3; ++i) {
      rank.compute(1e6 * (rank.rank() * 7 % 5 + i));
      co_await rank.barrier();
      rank.start_mark();
      rank.stop_mark();
    }
  };
  const Outcome alone = run(test_machine(), cluster(4, 2, 1), program);
  const auto problems = on_shards(3, [&](Shards& me) {
    ClusterOptions options = cluster(4, 2, 1);
    options.shards = &me;
    const Outcome outcome = run(test_machine(), options, program);
    CHECK(outcome.ranks.size() == static_cast<std::size_t>(2 * me.nodes_of_this_shard(4).size()));
    for (std::size_t i = 0; i < 3; ++i)
      for (const auto& rank : outcome.ranks) CHECK(rank.marks[i].start == alone.ranks[0].marks[i].start);
  });
  for (const std::string& problem : problems) CHECK(problem.empty());
}

// ---- ends

std::string problem_of(const ClusterOptions& options, const Program& program) {
  try {
    run(test_machine(), options, program);
  } catch (const std::exception& problem) {
    return problem.what();
  }
  return "";
}

// Computes endlessly, in steps that synchronise with the engine.
Task<> never_ends(Rank& rank) {
  const Address memory = rank.allocate(4096);
  while (true) co_await rank.read(memory, 4096);
}

Task<> fails(Rank& rank) {
  if (rank.rank() % 2 == 0) co_await never_ends(rank);
  rank.compute(rank.rank() == 3 ? 5e6 : 5e6 + 300);  // rank 1 is later
  co_await rank.read(rank.allocate(8), 8);
  throw std::runtime_error("rank " + std::to_string(rank.rank()) + " fails");
}

Task<> wait_for_each_other(Rank& rank) {
  const Buffer buffer(rank.allocate(64), 64);
  if (rank.rank() < 2) co_await rank.wait(rank.receive(1 - rank.rank(), buffer, 4));
}
const std::string both_wait =
    "rank 0 waits for 64 bytes from rank 1 with tag 4\nrank 1 waits for 64 bytes from rank 0 with tag 4";

// With any number of threads, is the failure with the earliest simulated time reported, and does it end the ranks of
// other nodes? Does the report of a deadlock name all waiting ranks?
void failures_end_all() {
  for (const int threads : {1, 2, 4}) {
    CHECK(problem_of(cluster(4, 1, threads), fails) == "rank 3 fails");
    CHECK(problem_of(cluster(3, 1, threads), wait_for_each_other) == both_wait);
  }
}

std::vector<std::string> problems_of_shards(int count, ClusterOptions options, const Program& program) {
  return on_shards(count, [&](Shards& me) {
    ClusterOptions mine = options;
    mine.shards = &me;
    run(test_machine(), mine, program);
  });
}

// Does the earliest failure end all shards, and does every shard report all waiting ranks of a deadlock? Do all end if
// one shard's progress callback throws, or if it cannot begin, and are too many shards refused?
void failures_end_all_shards() {
  using Problems = std::vector<std::string>;
  const std::string others = "shard 1 has failed";
  CHECK((problems_of_shards(2, cluster(4, 1, 1), fails) == Problems{others, "rank 3 fails"}));
  CHECK((problems_of_shards(3, cluster(3, 1, 1), wait_for_each_other) == Problems{both_wait, both_wait, both_wait}));
  for (const int after : {0, 5}) {
    const auto problems = on_shards(3, [after](Shards& me) {
      ClusterOptions options = cluster(4, 1, 1);
      options.shards = &me;
      int calls = 0;
      options.progress_callback = [&] {
        if (me.shard_number() == 1 && ++calls > after) throw std::runtime_error("enough");
      };
      run(test_machine(), options, never_ends);
    });
    CHECK((problems == Problems{others, "enough", others}));
  }
  for (const std::string& problem : problems_of_shards(3, cluster(2, 1, 1), never_ends))
    CHECK(problem == "shards: from 1 to 2 on machine 'made-up', not 3");
}

// Is the progress callback called in the caller's thread, and does its exception end all?
void the_caller_can_end_it() {
  ClusterOptions options = cluster(4, 1, 3);
  const auto caller = std::this_thread::get_id();
  int calls = 0;
  bool in_other_thread = false;
  options.progress_callback = [&] {
    in_other_thread |= std::this_thread::get_id() != caller;
    if (++calls >= 5) throw std::runtime_error("enough");
  };
  CHECK(problem_of(options, never_ends) == "enough");
  CHECK(calls >= 5 && !in_other_thread);
}

// Is every number processed once, with slow and late threads, too?
void thread_pools_do_all_once() {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (std::size_t count = 0; count < 300; ++count) {
      std::vector<std::atomic<int>> done(count);
      pool.parallel_for(count, [&](std::size_t which) {
        if (which % 50 == 7) std::this_thread::sleep_for(std::chrono::microseconds(100));
        ++done[which];
      });
      for (const auto& times : done) CHECK(times == 1);
    }
  }
}

}  // namespace

int main(int count, char**) {
  if (count > 1) {
    for (const Case& tested : cases) digits(tested, 1, 2).print();
    return 0;
  }
  thread_pools_do_all_once();
  the_first_departure_is_first();
  ranks_meet_at_a_barrier();
  nodes_of_all_shards_have_one_order();
  ranks_of_shards_meet_at_a_barrier();
  failures_end_all();
  failures_end_all_shards();
  the_caller_can_end_it();
  threads_change_nothing();
  shards_change_nothing();
  return failed_checks == 0 ? 0 : 1;
}

// Do nodes that go on by windows, on any number of the host's threads and of shards, do what they would do all at once?
// Shards are threads of one process here, which exchange bytes as processes would. tests/injected_bugs/
// windows.toml holds mistakes that this must notice; with an argument it prints a program's digits and nothing else.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>

#include "check.hpp"
#include "made_up_machine.hpp"
#include "made_up_stream.hpp"
#include "sim/engine/crew.hpp"
#include "sim/replay/run.hpp"

namespace {

using namespace nearfield;
using namespace nearfield::sim;
using Streams = std::vector<MadeUpStream>;
using Kind = stream::CollectiveKind;

constexpr std::uint64_t heap = 0x5555'0000'0000, there = heap + (1 << 20);

stream::Data data(std::uint64_t bytes, std::uint64_t address = heap) { return {address, bytes, MadeUpStream::bytes}; }

ClusterOptions cluster(int nodes, int ranks_per_node, int threads) {
  ClusterOptions options;
  options.nodes = nodes;
  options.ranks_per_node = ranks_per_node;
  options.policies = {"memory", "header-payload"};
  options.memory_slowdown = {1, 2.5, 5, 7.5};
  options.count_sides = true;
  options.threads = threads;
  options.worth_sharing_us = 0;
  return options;
}

// ---- a program with everything that time decides

class Writer {
 public:
  Writer(unsigned ranks, unsigned seed) : random_(seed), ranks_(ranks) {
    for (unsigned r = 0; r < ranks; ++r) all_.emplace_back(r, ranks);
  }

  Streams program(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      compute();
      switch (round % 5) {
        case 0:
          ring();
          break;
        case 1:
          to_anyone(round);
          break;
        case 2:
          collective(round % 2 ? Kind::alltoall : Kind::allreduce, round % 3 == 0);
          break;
        case 3:
          looks(round);
          break;
        case 4:
          pairs();
          break;
      }
    }
    for (auto& one : all_) one.end();
    return std::move(all_);
  }

 private:
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  std::int64_t other(unsigned rank, unsigned by) const { return (rank + by) % ranks_; }

  void compute() {
    for (auto& one : all_) one.access(below(2) != 0, heap + 8 * below(4000), below(1500), 8 << below(5));
  }
  void ring() {
    const std::uint64_t bytes = below(2) ? 100 : 9000;
    for (unsigned r = 0; r < ranks_; ++r) {
      all_[r].enter("MPI_Irecv", 1).receive(1, other(r, ranks_ - 1), data(bytes, there)).leave();
      all_[r].enter("MPI_Isend", 2).send(2, other(r, 1), data(bytes)).leave();
      all_[r].enter("MPI_Waitall", 3).wait({1, 2}).leave();
    }
  }
  // Everybody sends to one rank at once, which takes them as they come; what came then is in its stream.
  void to_anyone(int tag) {
    const auto to = static_cast<unsigned>(below(ranks_));
    const std::uint64_t bytes = below(2) ? 64 : 5000;
    for (unsigned r = 0; r < ranks_; ++r)
      if (r != to) all_[r].enter("MPI_Send", 4).send(1, to, data(bytes), tag).wait({1}).leave();
    const auto first = static_cast<unsigned>(below(ranks_ - 1));
    for (unsigned i = 0; i + 1 < ranks_; ++i)
      all_[to].receive(i + 1, stream::any, data(bytes, there + i * 8192), i % 2 ? stream::any : tag);
    for (unsigned i = 0; i + 1 < ranks_; ++i) {
      const std::int64_t from = other(to, 1 + (first + i) % (ranks_ - 1));
      all_[to].enter("MPI_Wait", 5).add(stream::Outcome{i + 1, from, tag, bytes}).wait({i + 1}).leave();
    }
  }
  void collective(Kind kind, bool nonblocking) {
    for (unsigned r = 0; r < ranks_; ++r) {
      stream::Collective event;
      event.kind = kind;
      event.request = nonblocking ? 7 : 0;
      event.gives = {data(kind == Kind::alltoall ? 200 : 3000)};
      event.gets = {data(kind == Kind::alltoall ? 200 : 3000, there)};
      all_[r].enter("MPI_Collective", 6).add(event).leave();
      if (nonblocking) all_[r].access(false, heap, 300).enter("MPI_Wait", 7).wait({7}).leave();
    }
  }
  // Each rank tests, then probes for what its neighbour sends.
  void looks(int tag) {
    for (unsigned r = 0; r < ranks_; ++r) {
      auto& one = all_[r];
      const std::int64_t from = other(r, ranks_ - 1);
      one.receive(1, from, data(8, there), tag + 1000).send(2, other(r, 1), data(8), tag + 1000);
      one.enter("MPI_Test", 8).add(stream::Tested{{1}, {}, false}).leave().access(true, heap, below(200));
      one.enter("MPI_Waitany", 9).add(stream::Tested{{1, 2}, {1}, true}).leave().wait({2});
      one.send(3, other(r, 1), data(700), tag);
      one.enter("MPI_Probe", 10).add(stream::Outcome{0, from, tag, 700});
      one.add(stream::Probe{0, stream::any, tag, true, true}).leave();
      one.receive(4, from, data(700, there), tag).wait({3, 4});
    }
  }
  // Pairs at the same time, so that messages of many nodes compete for links.
  void pairs() {
    for (unsigned r = 0; r < ranks_; ++r) {
      const std::int64_t with = other(r, ranks_ / 2);
      const bool first = r < ranks_ / 2;
      if (r >= ranks_ / 2 * 2) continue;
      const std::int64_t peer = first ? with : r - ranks_ / 2;
      all_[r]
          .receive(1, peer, data(20000, there))
          .send(2, peer, data(20000))
          .enter("MPI_Waitall", 3)
          .wait({1, 2})
          .leave();
    }
  }

  std::mt19937 random_;
  unsigned ranks_;
  Streams all_;
};

// Each shard has the streams of its own ranks only.
replay::Replayed run(const Machine& machine, const ClusterOptions& options, Streams all) {
  std::vector<replay::Stream> sources;
  const NodeRange here = options.shards ? options.shards->part_of(options.nodes) : NodeRange{0, options.nodes};
  for (auto& one : all)
    if (here.has(static_cast<int>(sources.size()) / options.ranks_per_node))
      sources.push_back({&one, [again = one] { return std::make_unique<MadeUpStream>(again); }, {}});
    else
      sources.emplace_back();
  return replay::run(machine, options, sources, {});
}

// Where shards that are threads meet: the last one to come gives all what all brought.
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
    return given_;  // nobody brings the last thing of the next meeting before all have this
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_are_there_;
  std::vector<std::string> brought_, given_;
  std::size_t there_ = 0;
  std::uint64_t meetings_ = 0;
};

// Calls `work(shards)` for each of some shards, on a thread of its own. Returns what each one threw; empty: nothing.
std::vector<std::string> on_shards(int count, const std::function<void(Shards&)>& work) {
  const auto shards = static_cast<std::size_t>(count);
  std::vector<std::string> problems(shards);
  MeetingPlace place(count);
  std::vector<std::thread> threads;
  for (std::size_t me = 0; me < shards; ++me)
    threads.emplace_back([&, me] {
      Shards its(static_cast<int>(me), count,
                 [&place, me](const std::string& mine) { return place.exchange(me, mine); });
      try {
        work(its);
      } catch (const std::exception& problem) {
        its.leave();
        problems[me] = problem.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return problems;
}

// ---- all that a run says

class Digits {
 public:
  explicit Digits(const replay::Replayed& run) : events_(run.cluster.events) {
    add(run.part_ps, run.cluster.messages, run.cluster.bytes);
    for (const auto& rank : run.cluster.ranks) {
      add(rank.finished);
      add(rank.in_calls.sending);
      add(rank.in_calls.receiving);
      add(rank.in_calls.waiting);
    }
    for (const auto& variant : run.cluster.variants) {
      for (const Counts& counts : variant.memory_at) add(counts);
      for (const NicCounts& nic : variant.nic_of_node) {
        add(nic.commands, nic.events, nic.read_bytes, nic.written_bytes);
        for (const Count polls : nic.empty_polls) add(polls);
      }
    }
    for (const auto& rank : run.ranks) {
      add(rank.accesses, rank.dependence.contested, rank.dependence.from_any, rank.dependence.looks);
      add(rank.computing);
      for (const auto& call : rank.calls) {
        add(call.spent);
        for (const Ps part : call.timeline) add(part);
      }
    }
  }
  friend bool operator==(const Digits&, const Digits&) = default;
  // Prints all but the number of events, which depends on where windows begin.
  void print() const {
    for (const double number : all_) std::printf("%.17g\n", number);
  }

 private:
  template <class... Numbers>
    requires(std::is_arithmetic_v<Numbers> && ...)
  void add(Numbers... numbers) {
    (all_.push_back(static_cast<double>(numbers)), ...);
  }
  void add(const Clock& clock) {
    for (const auto& times : clock)
      for (const Ps time : times.at) add(time);
  }
  void add(const Counts& counts) {
    for (const auto& level : counts.levels)
      add(level.hits, level.misses, level.evictions, level.injections, level.injected_unused, level.snoops);
    add(counts.dram.bytes, counts.dram.reads, counts.dram.writes, counts.transfers);
  }
  void add(const replay::Spent& spent) {
    add(spent.times);
    add(spent.time);
    for (const Count misses : spent.seen.misses) add(misses);
    add(spent.seen.snoops, spent.seen.invalidations);
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

Machine machine_of(const Case& its) {
  Machine machine = made_up_machine();
  machine.messaging.network = its.protocol;
  machine.network->topology = its.topology;
  machine.network->shape = its.shape;
  machine.network->nodes_per_router = its.nodes_per_router;
  return machine;
}

Digits digits(const Case& its, unsigned seed, int threads, Shards* shards = nullptr) {
  const auto ranks = static_cast<unsigned>(its.nodes * its.ranks_per_node);
  ClusterOptions options = cluster(its.nodes, its.ranks_per_node, threads);
  options.shards = shards;
  return Digits(run(machine_of(its), options, Writer(ranks, seed).program(25)));
}

// Are all times, counts and timelines the same to the last digit with one to four threads, and with more than nodes, for
// a program with wildcards, probes, tests and collectives, whose messages compete?
void threads_change_nothing() {
  for (const Case& its : cases)
    for (unsigned seed = 1; seed <= 2; ++seed) {
      const Digits one = digits(its, seed, 1);
      for (const int threads : {1, 2, 3, 64}) CHECK(digits(its, seed, threads) == one);
    }
}

// Does the first shard have the same digits, whatever the number of shards, with threads in them and without?
void shards_change_nothing() {
  for (const Case& its : cases) {
    const Digits one = digits(its, 1, 1);
    for (const int shards : {2, 3})
      for (const int threads : {1, 2}) {
        std::optional<Digits> first;
        const auto problems = on_shards(shards, [&](Shards& me) {
          const Digits found = digits(its, 1, threads, &me);
          if (me.number() == 0) first = found;
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

// Does the message that leaves first get through first, whatever the numbers of the nodes?
void who_leaves_first_is_first() {
  Machine machine = made_up_machine();
  machine.messaging.network = "eager-rendezvous";
  machine.messaging.eager_bytes = 1 << 20;
  for (const int early : {1, 2}) {
    const Outcome outcome = run(machine, cluster(3, 1, 2), [early](Rank& rank) -> Task<> {
      const Buffer buffer(rank.allocate(100000), 100000);
      if (rank.rank() == 0) {
        const Request late = rank.receive(3 - early, buffer, 0), first = rank.receive(early, buffer, 0);
        co_await rank.wait(first);
        rank.start();
        co_await rank.wait(late);
        rank.stop();
      } else {
        if (rank.rank() != early) rank.compute(400e3);  // less than the latency
        co_await rank.wait(rank.send(0, buffer, 0));
      }
    });
    const Mark& between = outcome.ranks[0].marks[0];
    CHECK(between.stop.first() - between.start.first() > 30000e3);  // the late one's bytes come after the first one's
  }
}

// Do all ranks go on at the same time when the last one has lined up, on one node and on several?
void ranks_line_up() {
  for (const auto& options : {cluster(4, 2, 2), cluster(1, 4, 2)}) {
    const Outcome outcome = run(made_up_machine(), options, [](Rank& rank) -> Task<> {
      for (int i = 0; i < 3; ++i) {
        rank.compute(1e6 * (rank.rank() * 7 % 5 + i));
        co_await rank.line_up();
        rank.start();
        rank.stop();
      }
    });
    for (std::size_t i = 0; i < 3; ++i)
      for (const auto& rank : outcome.ranks) CHECK(rank.marks[i].start == outcome.ranks[0].marks[i].start);
  }
}

// Do messages that leave nodes of two shards at the same time enter the network in the order of the nodes?
void nodes_of_all_shards_have_one_order() {
  Machine machine = made_up_machine();
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
                 rank.start();
                 co_await rank.wait(rank.receive(2, buffer, 0));
                 rank.stop();
               })
        .ranks.back();
  };
  const RankOutcome alone = last_mark(nullptr);
  on_shards(2, [&](Shards& me) {
    const RankOutcome its = last_mark(&me);
    if (me.number() == 1) CHECK(its.finished == alone.finished && its.marks[0].start == alone.marks[0].start);
  });
}

// Do they on several shards, at the time at which they do on one?
void ranks_of_shards_line_up() {
  const Program program = [](Rank& rank) -> Task<> {
    for (int i = 0; i < 3; ++i) {
      rank.compute(1e6 * (rank.rank() * 7 % 5 + i));
      co_await rank.line_up();
      rank.start();
      rank.stop();
    }
  };
  const Outcome alone = run(made_up_machine(), cluster(4, 2, 1), program);
  const auto problems = on_shards(3, [&](Shards& me) {
    ClusterOptions options = cluster(4, 2, 1);
    options.shards = &me;
    const Outcome outcome = run(made_up_machine(), options, program);
    CHECK(outcome.ranks.size() == static_cast<std::size_t>(2 * me.part_of(4).size()));
    for (std::size_t i = 0; i < 3; ++i)
      for (const auto& rank : outcome.ranks) CHECK(rank.marks[i].start == alone.ranks[0].marks[i].start);
  });
  for (const std::string& problem : problems) CHECK(problem.empty());
}

// ---- ends

std::string problem_of(const ClusterOptions& options, const Program& program) {
  try {
    run(made_up_machine(), options, program);
  } catch (const std::exception& problem) {
    return problem.what();
  }
  return "";
}

// Computes for ever, in steps that other ranks can see.
Task<> never_ends(Rank& rank) {
  const Address here = rank.allocate(4096);
  while (true) co_await rank.read(here, 4096);
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

// With any number of threads: is it the failure that came first by the simulated time, and does it end the ranks of other
// nodes? Is a deadlock told with all who wait?
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
    run(made_up_machine(), mine, program);
  });
}

// Is it the first failure that ends all shards, and does every shard know of a deadlock all who wait? Does it end all if
// one shard's caller wants it, or cannot begin, and are too many shards refused?
void failures_end_all_shards() {
  using Problems = std::vector<std::string>;
  const std::string others = "shard 1 has failed";
  CHECK((problems_of_shards(2, cluster(4, 1, 1), fails) == Problems{others, "rank 3 fails"}));
  CHECK((problems_of_shards(3, cluster(3, 1, 1), wait_for_each_other) == Problems{both_wait, both_wait, both_wait}));
  for (const int after : {0, 5}) {
    const auto problems = on_shards(3, [after](Shards& me) {
      ClusterOptions options = cluster(4, 1, 1);
      options.shards = &me;
      int asked = 0;
      options.now_and_then = [&] {
        if (me.number() == 1 && ++asked > after) throw std::runtime_error("enough");
      };
      run(made_up_machine(), options, never_ends);
    });
    CHECK((problems == Problems{others, "enough", others}));
  }
  for (const std::string& problem : problems_of_shards(3, cluster(2, 1, 1), never_ends))
    CHECK(problem == "shards: from 1 to 2 on machine 'made-up', not 3");
}

// Is the caller asked in its own thread, now and then, whether to go on, and does its exception end all?
void the_caller_can_end_it() {
  ClusterOptions options = cluster(4, 1, 3);
  const auto caller = std::this_thread::get_id();
  int asked = 0;
  bool elsewhere = false;
  options.now_and_then = [&] {
    elsewhere |= std::this_thread::get_id() != caller;
    if (++asked >= 5) throw std::runtime_error("enough");
  };
  CHECK(problem_of(options, never_ends) == "enough");
  CHECK(asked >= 5 && !elsewhere);
}

// Are all numbers worked on once, whoever is slow or late?
void crews_do_all_once() {
  for (const int threads : {1, 2, 5}) {
    Crew crew(threads);
    for (std::size_t count = 0; count < 300; ++count) {
      std::vector<std::atomic<int>> done(count);
      crew.each(count, [&](std::size_t which) {
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
    for (const Case& its : cases) digits(its, 1, 2).print();
    return 0;
  }
  crews_do_all_once();
  who_leaves_first_is_first();
  ranks_line_up();
  nodes_of_all_shards_have_one_order();
  ranks_of_shards_line_up();
  failures_end_all();
  failures_end_all_shards();
  the_caller_can_end_it();
  threads_change_nothing();
  shards_change_nothing();
  return failed_checks == 0 ? 0 : 1;
}

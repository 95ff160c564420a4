// Does a simulated cluster replay the streams of an observed program, and break down its time?
#include <cmath>
#include <random>
#include <string>

#include "check.hpp"
#include "replay_streams.hpp"
#include "sim/run/replay/independent_runs.hpp"

namespace {

using namespace nearfield;
using namespace nearfield::sim;
// ---- accesses

// Are the accesses and times the same as those of the same program written for the simulator?
void accesses_are_the_programs() {
  Streams all = streams(1);
  all[0].access(true, heap, 3000).access(false, heap + 64, 2000, 24).access(false, heap, 3000).end();
  const auto replayed = run(all, cluster(1, 1));
  const Outcome written = Cluster(test_machine(), cluster(1, 1)).run([](Rank& rank) -> Task<> {
    const Address buffer = rank.allocate(1 << 20);
    co_await rank.sweep(Access::store, buffer, 3000, 8, 8);
    co_await rank.sweep(Access::load, buffer + 64, 2000, 24, 8);
    co_await rank.sweep(Access::load, buffer, 3000, 8, 8);
  });
  CHECK(replayed.ranks[0].accesses == 8000);
  CHECK(replayed.cluster.ranks[0].finish_time == written.ranks[0].finish_time);
  for (std::size_t level = 0; level < 3; ++level) {
    const auto &mine = replayed.cluster.variants[0].memory.levels[level],
               &theirs = written.variants[0].memory.levels[level];
    CHECK(mine.hits == theirs.hits && mine.misses == theirs.misses);
  }
}

// Do ranks of one node have separate memories although their addresses are equal, and does an access across the end of
// a region continue in the next one?
void processes_have_separate_memories() {
  Streams all = streams(2);
  for (auto& one : all) one.access(true, heap, 100).end();
  const auto replayed = run(all, cluster(1, 2));
  CHECK(replayed.cluster.variants[0].memory.dram.reads == 2 * 7);  // 800 bytes in lines of 128
  Streams over_the_end = streams(1);
  over_the_end[0].access(false, heap + (std::uint64_t{1} << 30) - 4).end();
  CHECK(run(over_the_end, cluster(1, 1)).cluster.variants[0].memory.dram.reads == 2);
}

// ---- messages

// A ring of messages in both sizes, with accesses between.
Streams ring(unsigned ranks) {
  Streams all = streams(ranks);
  for (unsigned r = 0; r < ranks; ++r) {
    auto& one = all[r];
    const auto right = static_cast<std::int64_t>((r + 1) % ranks),
               left = static_cast<std::int64_t>((r + ranks - 1) % ranks);
    for (const std::uint64_t bytes : {std::uint64_t{100}, large}) {
      one.access(true, heap, bytes / 8);
      one.enter("MPI_Irecv", 1).receive(1, left, data(bytes, heap + 65536)).leave();
      one.enter("MPI_Isend", 2).send(2, right, data(bytes)).leave();
      one.access(false, heap + 300000, 50 * (r + 1));
      one.enter("MPI_Waitall", 3).wait({1, 2}).leave();
      one.access(false, heap + 65536, bytes / 8);
    }
    one.end();
  }
  return all;
}

// Does arithmetic take only the time by which it exceeds the issue of the accesses around it?
void arithmetic_takes_time() {
  Machine machine = test_machine();
  machine.core.flops_per_cycle = 2;
  Streams all = streams(1);
  all[0].access(true, heap, 1000, 0).end();
  const auto time = [&](float flops) {
    const auto replayed = run(all, cluster(1, 1), {}, [flops](std::uint32_t) { return flops; }, machine);
    CHECK(replayed.ranks[0].flops == 1000 * flops);
    return replayed.ranks[0].computing.time[0].at[0];
  };
  const Ps cycle = 1e3 / machine.core.clock_ghz, without = time(0);
  CHECK(time(static_cast<float>(2 * machine.core.cycles_per_access)) == without);
  CHECK(std::abs(time(20) - without - 1000 * (10 - machine.core.cycles_per_access) * cycle) < 2 * cycle);
}

// Does a chain wait for the data of each load, also if another load has fetched the line of its element, and does an
// element at an index wait for the index only?
void dependent_loads_wait() {
  constexpr std::uint64_t count = 1000;
  using enum stream::LoadRole;
  const Machine machine = test_machine();
  const auto time = [&](auto&& add_loads) {
    Streams all = streams(1);
    for (std::uint64_t i = 0; i < count; ++i) add_loads(all[0], heap + (i * 7919 % count) * 4096);
    all[0].end();
    return run(all, cluster(1, 1), {}, {}, machine).ranks[0].computing.time[0].at[0];
  };
  const Ps alone = time([](auto& to, std::uint64_t at) { to.load(at, independent); });
  const Ps chained = time([](auto& to, std::uint64_t at) { to.load(at, chain); });
  const Ps latency = machine.dram.latency_ns * 1e3;
  CHECK(chained >= count * latency && chained < count * latency * 1.5 && alone < chained / 1.5);
  const Ps list = time([](auto& to, std::uint64_t at) { to.load(at + 8, gather, 1).load(at, chain, 2); });
  CHECK(list >= chained && list < chained * 1.1);
  const Ps indexed = time([](auto& to, std::uint64_t at) { to.load(at + 2048, index, 1).load(at, gather, 2); });
  CHECK(indexed > 2 * alone && indexed < 3.3 * alone);  // the element occupies its miss slot while it waits
}

// Does a mispredicted branch cost its time, and is a regular order of code locations predicted?
void mispredicted_branches_take_time() {
  constexpr int count = 4000;
  const auto time = [&](double cycles, auto&& site_of) {
    Machine machine = test_machine();
    machine.core.mispredict_cycles = cycles;
    Streams all = streams(1);
    for (int i = 0; i < count; ++i) all[0].load(heap, stream::LoadRole::independent, site_of(i));
    all[0].end();
    return run(all, cluster(1, 1), {}, {}, machine).ranks[0].computing.time[0].at[0];
  };
  const Ps cycle = 1e3 / test_machine().core.clock_ghz;
  const auto lost = [&](auto&& site_of) { return (time(20, site_of) - time(0, site_of)) / (20 * cycle) / count; };
  CHECK(lost([](int i) { return static_cast<std::uint32_t>(i % 7 == 3 ? 5 : i % 3); }) < 0.05);
  std::mt19937 random(3);
  std::vector<std::uint32_t> sites(count);
  for (auto& site : sites) site = random() % 2;
  const double of_random = lost([&](int i) { return sites[static_cast<std::size_t>(i)]; });
  CHECK(of_random > 0.4 && of_random < 0.65);
}

// Do a rank's calls and the computation between them add up to its whole time, for every policy and speed? Has each
// call its call site and its number of calls?
void times_add_up() {
  for (const auto& options : {cluster(3, 2), cluster(1, 4), cluster(4, 1)}) {
    const auto replayed = run(ring(static_cast<unsigned>(options.nodes * options.ranks_per_node)), options);
    for (std::size_t r = 0; r < replayed.ranks.size(); ++r) {
      const auto& rank = replayed.ranks[r];
      ConfigClock sum = rank.computing.time;
      for (const auto& call : rank.calls) sum += call.spent.time;
      CHECK(sum == replayed.cluster.ranks[r].finish_time);
      CHECK(rank.calls.size() == 3);
      CHECK(rank.calls[0].name == "MPI_Irecv" && rank.calls[2].name == "MPI_Waitall");
      CHECK(rank.calls[2].place.object == "/bin/program" && rank.calls[2].place.offset == 0x103);
      CHECK(rank.calls[2].spent.num_intervals == 2);
      CHECK(rank.calls[0].spent.time.first() == 2 * 5e3);  // receive_ns
    }
  }
}

// Without memory effects, does a message take the sum of the library's steps?
void messages_take_their_time() {
  ClusterOptions options = cluster(2, 1);
  options.has_memory_effects = false;
  Streams all = streams(2);
  all[0].enter("MPI_Send").send(1, 1, data(100)).wait({1}).leave().end();
  all[1].enter("MPI_Recv").receive(1, 0, data(100)).wait({1}).leave().end();
  const auto replayed = run(all, options);
  CHECK(replayed.ranks[0].calls[0].spent.time.first() == 33e3);  // send_ns, post_ns
  CHECK(replayed.ranks[1].calls[0].spent.time.first() == (33 + 1000 + 100 + 70 + 7) * 1e3);
}

// Do independent runs of policies and speeds give the same as single runs?
void independent_runs_equal_single_runs() {
  const Streams all = ring(4);
  ClusterOptions options = cluster(4, 1);
  const auto run_one = [&](const std::string& policy, double slowdown) {
    options.placement_policy_names = {policy};
    options.memory_slowdown.fill(slowdown);
    return run(all, options);
  };
  const auto independent = replay::run_independently({"memory", "header-payload"}, {1, 5}, run_one);
  const auto alone = run_one("header-payload", 5);
  for (std::size_t r = 0; r < 4; ++r) {
    CHECK(independent.cluster.ranks[r].finish_time[1][1] == alone.cluster.ranks[r].finish_time[0][0]);
    CHECK(independent.cluster.ranks[r].finish_time[1][3] == independent.cluster.ranks[r].finish_time[1][1]);
    CHECK(independent.ranks[r].calls[2].spent.time[1][1] == alone.ranks[r].calls[2].spent.time[0][0]);
    CHECK(independent.ranks[r].computing.time[1][1] == alone.ranks[r].computing.time[0][0]);
  }
  CHECK(independent.cluster.variants.size() == 2 && independent.cluster.variants[1].policy == "header-payload");
  CHECK(independent.cluster.variants[1].memory_counts_by_speed[1].dram.reads ==
        alone.cluster.variants[0].memory.dram.reads);
}

// Is a message found that arrives while the rank that probes for it synchronises with the engine?
void probes_find_concurrent_messages() {
  Machine machine = test_machine();
  machine.messaging.network = "zero-copy";  // the NIC matches, and delivers no packet to the rank
  machine.messaging.match_ns = 1000;
  for (std::uint64_t n = 0; n < 60; ++n) {
    Streams all = streams(2);
    all[0].access(false, heap, 1000 + 20 * n).enter("MPI_Probe").add(stream::Probe{0, 1, 5, true, true}).leave();
    all[0].receive(1, 1, data(8), 5).wait({1}).end();
    all[1].access(false, heap, 1000).send(1, 0, data(8), 5).wait({1}).end();
    const auto replayed = run(all, cluster(2, 1), {}, {}, machine);
    CHECK(replayed.ranks[0].calls[0].spent.num_intervals == 1);
  }
}

// Do buffered and freed sends arrive, and does a synchronous one wait?
void other_sends() {
  using stream::SendMode;
  Streams all = streams(2);
  all[0].add(stream::Send{1, SendMode::buffered, 0, 1, 0, data(large)}).wait({1});
  all[0].add(stream::Send{1, SendMode::standard, 0, 1, 0, data(large)}).add(stream::RequestFreed{1});
  all[0].enter("MPI_Ssend").add(stream::Send{1, SendMode::synchronous, 0, 1, 1, data(8)}).wait({1}).leave();
  all[0].send(1, stream::proc_null, data(8)).wait({1}).end();
  all[1].access(false, heap, 50000).receive(1, 0, data(8), 1).wait({1}).receive(1, 0, data(large)).wait({1});
  all[1].receive(1, 0, data(large)).wait({1}).end();
  for (const auto& options : {cluster(2, 1), cluster(1, 2)})
    CHECK(run(all, options).ranks[0].calls[0].spent.time.first() > 50000 * 1e3 / 2);
}

// ---- collectives

using Kind = stream::CollectiveKind;

// Returns the arguments of rank `me` of `ranks` for an operation with root 1, or in place.
stream::Collective collective(Kind kind, std::uint64_t me, std::uint64_t ranks, bool in_place) {
  stream::Collective event;
  event.kind = kind;
  event.root = 1;
  event.is_in_place = in_place;
  const auto list = [&](std::uint64_t at) {
    std::vector<stream::Data> parts;
    for (std::uint64_t i = 0; i < ranks; ++i) parts.push_back({at + i * 4096, 800, 0});
    return parts;
  };
  const std::vector<stream::Data> in{{heap, 800, 0}}, out{{heap + 100000, 800, 0}};
  const bool root = me == event.root;
  const bool rooted = kind == Kind::gather || kind == Kind::gatherv || kind == Kind::reduce;
  const bool scatters = kind == Kind::scatter || kind == Kind::scatterv;
  const bool gives_list = kind == Kind::alltoallv || kind == Kind::alltoallw || kind == Kind::reduce_scatter ||
                          kind == Kind::scatterv || kind == Kind::neighbor_alltoallv ||
                          kind == Kind::neighbor_alltoallw;
  const bool gets_list = kind == Kind::alltoallv || kind == Kind::alltoallw || kind == Kind::gatherv ||
                         kind == Kind::allgatherv || kind == Kind::neighbor_allgatherv ||
                         kind == Kind::neighbor_alltoallv || kind == Kind::neighbor_alltoallw;
  if (kind == Kind::barrier) return event;
  if (kind == Kind::bcast) return (root ? event.send_buffers : event.receive_buffers) = in, event;
  event.is_in_place = in_place && (root || !(rooted || scatters));
  if (!(event.is_in_place && !scatters) && (root || !scatters)) event.send_buffers = gives_list ? list(heap) : in;
  if (!(event.is_in_place && scatters) && (root || !rooted)) {
    const bool listed = gets_list || (kind == Kind::reduce_scatter && in_place);
    event.receive_buffers = listed ? list(heap + 100000) : out;
  }
  return event;
}

// Do all collectives complete on all ranks, blocking or not, in place or not, with any datatype? Are their messages
// separate from the program's own, and from those of another communicator?
void collectives_are_done() {
  for (int number = 0; number <= static_cast<int>(Kind::neighbor_alltoallw); ++number) {
    const auto kind = static_cast<Kind>(number);
    const bool has_in_place = kind != Kind::barrier && kind != Kind::bcast && kind < Kind::neighbor_allgather;
    for (const bool in_place : {false, true})
      for (const stream::Number layout : {0, 1})
        for (const stream::Number request : {0, 1}) {
          if (in_place && !has_in_place) continue;
          constexpr std::uint64_t ranks = 3;
          Streams all = streams(ranks + 1);
          for (std::uint64_t r = 0; r < ranks + 1; ++r) {
            // Ranks 3, 1, 2 are the members.
            const std::uint64_t me = r == 3 ? 0 : r;
            auto& one = all[r];
            if (r == 0) {
              one.end();
              continue;
            }
            one.add(stream::Layout{1, 8, 16, {{0, 4, 2, 8}}, "with gaps"});
            one.add(stream::Communicator{4, 9, {3, 1, 2}, {}, "", {0, 1, 2}, {0, 1, 2}});
            stream::Collective event = collective(kind, me, ranks, in_place);
            event.communicator = 4;
            event.request = request;
            for (auto* parts : {&event.send_buffers, &event.receive_buffers})
              for (auto& part : *parts) part.layout = layout, part.count = layout ? 100 : 800;
            one.receive(2, stream::any_source_or_tag, data(8), stream::any_source_or_tag).add(event);
            if (request > 0) event.request = 4;
            one.add(event);
            if (request > 0) one.wait({4, 1});
            const auto right = static_cast<std::int64_t>(r % 3 + 1), left = static_cast<std::int64_t>((r + 1) % 3 + 1);
            one.send(3, right, data(8)).add(stream::Outcome{2, left, 0, 8}).wait({2, 3}).end();
          }
          const std::string problem = problem_of(all, cluster(2, 2));
          if (!problem.empty()) std::printf("kind %d, in place %d: %s\n", number, in_place, problem.c_str());
          CHECK(problem.empty());
        }
  }
}

// Does a nonblocking collective progress while its ranks wait for other requests?
void nonblocking_collectives_progress() {
  Streams all = streams(2);
  for (std::uint64_t r = 0; r < 2; ++r) {
    stream::Collective reduce = collective(Kind::allreduce, r, 2, false);
    reduce.request = 1;
    all[r].enter("MPI_Iallreduce").add(reduce).leave();
  }
  all[0].receive(2, 1, data(8)).wait({2}).wait({1}).end();  // sent only when the other rank has its sum
  all[1].wait({1}).send(2, 0, data(8)).wait({2}).end();
  CHECK(problem_of(all, cluster(2, 1)).empty());
  CHECK(problem_of(all, cluster(1, 2)).empty());
}

// Do the parts of a timeline add up to the time in a call, with equal widths on all ranks, at any length of the run?
void timelines_sum_up() {
  Streams all = streams(2);
  for (int i = 0; i < 2000; ++i) {
    all[0].access(false, heap, 10).enter("MPI_Send").send(1, 1, data(8)).wait({1}).leave();
    all[1].enter("MPI_Recv").receive(1, 0, data(8)).wait({1}).leave();
  }
  all[0].access(false, heap, 10).end();
  all[1].access(false, heap, 200000).end();  // the call is in few of the parts
  const auto replayed = run(all, cluster(2, 1));
  for (const auto& rank : replayed.ranks) {
    const auto& call = rank.calls[0];
    Ps sum = 0;
    for (const Ps part : call.timeline) {
      CHECK(part >= 0 && part <= replayed.bin_ps * 1.000001);
      sum += part;
    }
    CHECK(std::abs(sum / call.spent.time.first() - 1) < 1e-9);
    CHECK(call.timeline.size() > 10 && call.timeline.size() <= 512);
  }
}

// ---- regions and errors

// Outside the named regions, are accesses and time skipped, but not messages?
void regions_are_separate() {
  Streams all = streams(2);
  for (unsigned r = 0; r < 2; ++r) {
    auto& one = all[r];
    const auto exchange = [&](stream::Number place) {
      one.enter("MPI_Sendrecv", place).receive(1, 1 - r, data(8)).send(2, 1 - r, data(8)).wait({1, 2}).leave();
    };
    one.access(false, heap, 1000);
    exchange(1);
    one.add(stream::Text{77, "solve"}).add(stream::Region{77, 1}).access(false, heap, 10);
    exchange(2);
    one.add(stream::Region{77, 0}).access(false, heap, 1000);
    exchange(3);
    one.end();
  }
  const auto replayed = run(all, cluster(2, 1), {{"solve"}});
  const auto& rank = replayed.ranks[0];
  CHECK(rank.accesses == 10 && rank.skipped_accesses == 2000);
  CHECK(rank.calls.size() == 1 && rank.calls[0].place.offset == 0x102);
  CHECK(rank.computing.time.first() > 0 && rank.computing.time.first() < 2000 * 1e3);
  CHECK(run(all, cluster(2, 1), {{"set up"}}).ranks[0].calls.empty());
  CHECK(run(all, cluster(2, 1)).ranks[0].calls.size() == 3);
}

// Do errors name the problem and the rank?
void problems_are_named() {
  const ClusterOptions two = cluster(2, 1);
  const auto ended = [](const char* what) {
    Streams all = streams(2);
    const std::string problem = what;
    if (problem == "refused") all[0].add(stream::Text{1, "MPI_Put"}).add(stream::Unsupported{1});
    if (problem == "communicator") all[0].add(stream::Send{1, stream::SendMode::standard, 5, 1, 0, data(8)});
    if (problem == "datatype") all[0].send(1, 1, {heap, 1, 8});
    if (problem == "peer") all[0].send(1, 7, data(8));
    if (problem == "long") all[0].send(1, 1, data(16)).wait({1});
    if (problem == "between groups")
      all[0].add(stream::Communicator{3, 3, {0}, {1}, "", {}, {}}).add(stream::Collective{0, Kind::barrier, 3});
    if (problem == "waits") all[0].enter("MPI_Recv").receive(1, 1, data(8), 6).wait({1}).leave();
    if (problem != "cut") all[0].end();
    all[1].receive(1, 0, data(8));
    if (problem == "long") all[1].wait({1});
    all[1].end();
    return all;
  };
  CHECK(problem_of(ended("refused"), two) == "rank 0: the program uses MPI_Put, which cannot be simulated");
  CHECK(problem_of(ended("cut"), two) == "rank 0: its stream ends before the program did");
  CHECK(problem_of(ended("communicator"), two).find("communicator that it does not describe") != std::string::npos);
  CHECK(problem_of(ended("datatype"), two).find("datatype that it does not describe") != std::string::npos);
  CHECK(problem_of(ended("peer"), two).find("does not have: 7") != std::string::npos);
  CHECK(problem_of(ended("long"), two) == "rank 1 receives 8 bytes at most from rank 0 with tag 0, but 16 were sent");
  CHECK(problem_of(ended("between groups"), two).find("intercommunicators") != std::string::npos);
  CHECK(problem_of(ended("waits"), two) == "rank 0 waits in MPI_Recv for 8 bytes from rank 1 with tag 6");
  CHECK(problem_of(streams(3), two) == "the program ran with 3 ranks, but 2 nodes of 1 ranks are 2");
  Streams turned = streams(2);
  std::swap(turned[0], turned[1]);
  CHECK(problem_of(turned, two).find("is that of rank 1 of 2, not of rank 0 of 2") != std::string::npos);
}

}  // namespace

int main() {
  accesses_are_the_programs();
  arithmetic_takes_time();
  dependent_loads_wait();
  mispredicted_branches_take_time();
  processes_have_separate_memories();
  times_add_up();
  messages_take_their_time();
  independent_runs_equal_single_runs();
  probes_find_concurrent_messages();
  other_sends();
  collectives_are_done();
  nonblocking_collectives_progress();
  timelines_sum_up();
  regions_are_separate();
  problems_are_named();
  return failed_checks == 0 ? 0 : 1;
}

// Do simulated ranks behave as MPI ranks, at the times that are computed by hand?
#include <cmath>
#include <random>
#include <stdexcept>
#include <string>

#include "check.hpp"
#include "rank_programs.hpp"
#include "sim/mpi/protocol.hpp"
#include "test_machine.hpp"

namespace {

using namespace nearfield::sim;
using nearfield::Machine;

constexpr double ns = 1e3;

bool everywhere(const ConfigClock& clock, double expected_ns) {
  bool same = clock.num_variants() > 0;
  for (const TimeVector& times : clock)
    for (int speed = 0; speed < num_memory_speeds; ++speed)
      same = same && times[speed] == std::nearbyint(expected_ns * ns);
  if (!same) std::printf("%.3f ns, not %.3f ns\n", clock.first() / ns, expected_ns);
  return same;
}

// Without memory effects, does every protocol take exactly the sum of its steps, at any distance and size?
void protocols_are_loggp() {
  std::mt19937 random(3);
  for (int i = 0; i < 60; ++i) {
    Machine machine = test_machine();
    machine.network->topology = "torus";
    machine.network->shape = {2, static_cast<int>(random() % 4 + 1)};
    const int nodes = 2 * machine.network->shape[1];
    const std::uint64_t bytes = random() % (1u << (random() % 12 + 1));  // one block, one piece
    if (i % 2 == 1) machine.nic->polling = nearfield::Polling::command;
    // The NIC writes an event in 70 ns; or it answers a command, which takes the core 30 ns, in 70 ns.
    const double way = 1000, serial = static_cast<double>(bytes), answer = 70,
                 event = i % 2 == 1 ? 30 + answer : answer;
    const double begin = 3 + 30, header = way + event;
    const auto finish = [&](const char* name) {
      machine.messaging.network = name;
      return Cluster(machine, options(nodes, 1, false, {"memory", "memory"})).run(one_message(bytes));
    };
    CHECK(everywhere(finish("eager-rendezvous").ranks[1].finish_time,
                     bytes <= 2048 ? begin + way + serial + event + 7
                                   : begin + header + 7 + 11 + 30 + header + 11 + 30 + way + serial + event));
    CHECK(everywhere(finish("buffered").ranks[1].finish_time, begin + way + serial + event + 7));
    CHECK(everywhere(finish("buffered").ranks[0].finish_time, begin));
    CHECK(everywhere(finish("zero-copy").ranks[1].finish_time, begin + way + serial + event + 7));
    CHECK(everywhere(finish("zero-copy").ranks[0].finish_time, begin + serial / 2 + answer));  // the NIC has 2 GB/s
    const double registered = bytes > 0 ? 11 : 0;
    CHECK(everywhere(finish("rendezvous").ranks[1].finish_time,
                     begin + header + 7 + registered + 30 + header + registered + 30 + way + serial + event));
    CHECK(everywhere(finish("synchronous").ranks[1].finish_time, begin + header + 7 + 30 + header + way + serial));
  }
}

// Is an unexpected message written when its receive is posted, and not before, at every speed? At the slow ones the
// receive is late, at the fast one the message is; in separate runs, each speed gives the same.
void nics_hold_messages() {
  Machine machine = test_machine();
  machine.messaging.network = "zero-copy";
  const Program late = [](Rank& rank) -> Task<> {
    const Buffer buffer(rank.allocate(500), 500);
    rank.compute(rank.rank() * 50000 * ns);
    if (rank.rank() == 0) co_await rank.wait(rank.send(1, buffer, 5));
    if (rank.rank() == 1) co_await rank.wait(rank.receive(0, buffer, 5));
  };
  CHECK(everywhere(Cluster(machine, options(2, 1, false)).run(late).ranks[1].finish_time, 50000 + 5 + 30 + 70 + 7));
  machine.network->latency_ns = 20000;
  const Program reading = [](Rank& rank) -> Task<> {
    const Buffer buffer(rank.allocate(500), 500);
    const Address cold = rank.allocate(64000);
    if (rank.rank() == 0) co_await rank.wait(rank.send(1, buffer, 5));
    if (rank.rank() == 1) co_await rank.read(cold, 64000);
    if (rank.rank() == 1) co_await rank.wait(rank.receive(0, buffer, 5));
  };
  const Outcome combined = Cluster(machine, options(2, 1, true)).run(reading);
  for (int speed = 0; speed < num_memory_speeds; ++speed) {
    ClusterOptions alone = options(2, 1, true);
    alone.memory_slowdown.fill(alone.memory_slowdown[static_cast<std::size_t>(speed)]);
    CHECK(Cluster(machine, alone).run(reading).ranks[1].finish_time[0][0] == combined.ranks[1].finish_time[0][speed]);
  }
}

// Does memory that is slower than the network delay a message from the beginning of its arrival?
void slow_memory_holds_back() {
  Machine machine = test_machine();
  machine.messaging.network = "zero-copy";
  machine.dram.gb_per_s = 0.5;
  const Outcome outcome = Cluster(machine, options(2, 1, true)).run(one_message(12800));
  // It is read from memory while it is sent, and written while it arrives: at least 25600 ns, at most twice that.
  CHECK(outcome.ranks[1].finish_time.first() > (1000 + 25600) * ns);
  CHECK(outcome.ranks[1].finish_time.first() < (1000 + 2 * 25600) * ns);
  machine.nic->gb_per_s = machine.network->link_gb_per_s = 0;
  machine.dram.gb_per_s = 0.4;
  machine.network->latency_ns = 50000;
  Cluster cluster(machine, options(2, 1, true));
  const Outcome all_at_once = cluster.run([](Rank& rank) -> Task<> {
    const Buffer buffer(rank.allocate(12800), 12800);
    co_await rank.prepare_buffer(buffer, rank.rank() == 0 ? BufferState::modified : BufferState::invalid);
    co_await rank.barrier();
    rank.start_mark();  // the sender has it in its caches, so only the receiver's memory is slow
    if (rank.rank() == 0) co_await rank.wait(rank.send(1, buffer, 5));
    if (rank.rank() == 1) co_await rank.wait(rank.receive(0, buffer, 5));
    rank.stop_mark();
  });
  const Mark& mark = all_at_once.ranks[1].marks[0];
  CHECK(mark.stop.first() - mark.start.first() > (50000 + 12800 / 0.4) * ns);
}

// Within a node: without memory effects, only the library's own costs remain.
void node_protocols_add_up() {
  Machine machine = test_machine();
  for (const char* name : {"copy-in-copy-out", "single-copy"})
    for (const std::uint64_t bytes : {0u, 1u, 1024u, 1025u, 100000u}) {
      machine.messaging.node = name;
      const auto outcome = Cluster(machine, options(1, 2, false)).run(one_message(bytes));
      const double call = bytes > 1024 && name[0] == 's' ? 13 : 0;
      CHECK(everywhere(outcome.ranks[1].finish_time, 5 + 7 + call));  // the receive is called while the message arrives
    }
}

// The messages of all ranks in a random run, known to both sides.
struct Sent {
  int from, to, tag;
  std::uint64_t bytes;
  bool strided;
};

std::vector<Sent> random_traffic(int ranks, int messages, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Sent> all;
  for (int i = 0; i < messages; ++i)
    all.push_back({static_cast<int>(random() % static_cast<unsigned>(ranks)),
                   static_cast<int>(random() % static_cast<unsigned>(ranks)), static_cast<int>(random() % 2),
                   random() % 8 == 0 ? 0 : random() % (1u << (random() % 16)) / 8 * 8, random() % 4 == 0});
  return all;
}

Buffer buffer_for(Rank& rank, const Sent& sent) {
  if (!sent.strided) return {rank.allocate(sent.bytes), sent.bytes};
  return {rank.allocate(sent.bytes * 3 + 8), sent.bytes / 8, 8, 24};
}

bool none_back(const ConfigClock& before, const ConfigClock& after) {
  for (int v = 0; v < before.num_variants(); ++v)
    for (int l = 0; l < num_memory_speeds; ++l)
      if (after[v][l] < before[v][l]) return false;
  return true;
}

// Every rank posts its sends and receives in the order of the list, some receives late, then waits for all.
Program run_traffic(const std::vector<Sent>& all) {
  return [&all](Rank& rank) -> Task<> {
    std::vector<Request> requests;
    ConfigClock before = rank.now();
    int late = 0;
    for (const Sent& sent : all) {
      if (sent.to == rank.rank() && sent.from != rank.rank() && ++late % 7 == 0 && !requests.empty()) {
        rank.compute(2000 * ns);
        co_await rank.read(4096, 640);
      }
      if (sent.from == rank.rank()) requests.push_back(rank.send(sent.to, buffer_for(rank, sent), sent.tag));
      if (sent.to == rank.rank()) requests.push_back(rank.receive(sent.from, buffer_for(rank, sent), sent.tag));
      CHECK(none_back(before, rank.now()));
      before = rank.now();
    }
    for (const Request request : requests) {
      co_await rank.wait(request);
      CHECK(none_back(before, rank.now()));
      before = rank.now();
    }
    co_await rank.wait(requests.empty() ? Request{} : requests.front());  // a second time: returns at once
    CHECK(before == rank.now());
  };
}

Outcome traffic_by(const Machine& machine, const std::vector<Sent>& all, const ClusterOptions& cluster_options) {
  Cluster cluster(machine, cluster_options);
  return cluster.run(run_traffic(all));
}

bool same(const Counts& a, const Counts& b) {
  bool equal = a.levels.size() == b.levels.size() && a.transfers == b.transfers && a.dram.bytes == b.dram.bytes;
  for (std::size_t l = 0; equal && l < a.levels.size(); ++l)
    equal = a.levels[l].hits == b.levels[l].hits && a.levels[l].misses == b.levels[l].misses &&
            a.levels[l].injections == b.levels[l].injections;
  return equal;
}

// For every protocol, with and without memory: do messages arrive in order (buffers have the exact size, so a wrong one
// would be refused), are clocks monotonic, are as many bytes received as sent, and are two runs bit-identical?
void random_traffic_arrives() {
  unsigned seed = 0;
  std::vector<ProtocolPair> pairs = all_protocol_pairs(false);
  for (const auto& pair : all_protocol_pairs(true)) pairs.push_back(pair);
  for (const auto& pair : pairs)
    for (const bool memory : {false, true}) {
      Machine machine = test_machine();
      (pair.large->is_within_node ? machine.messaging.node : machine.messaging.network) = pair.name;
      const auto all = random_traffic(6, 250, ++seed);
      const auto cluster_options = options(3, 2, memory, {"memory", "header-payload", "ddio"});
      const Outcome one = traffic_by(machine, all, cluster_options), two = traffic_by(machine, all, cluster_options);
      std::uint64_t between_nodes = 0;
      for (const Sent& sent : all) between_nodes += sent.from / 2 != sent.to / 2 ? sent.bytes : 0;
      CHECK(one.bytes == between_nodes);
      CHECK(one.events == two.events && one.messages == two.messages);
      for (std::size_t v = 0; v < one.variants.size(); ++v) {
        const std::string network = machine.messaging.network;
        if (network != "synchronous" && network != "buffered-synchronous") {
          CHECK(one.variants[v].nic.read_bytes == between_nodes);
          CHECK(one.variants[v].nic.written_bytes == between_nodes);
        }
        CHECK(one.variants[v].nic.empty_polls == two.variants[v].nic.empty_polls);
        CHECK(same(one.variants[v].memory, two.variants[v].memory));
      }
      for (std::size_t r = 0; r < one.ranks.size(); ++r) CHECK(one.ranks[r].finish_time == two.ranks[r].finish_time);
    }
}

// A chain of messages: each rank works on its message and forwards it, so that there is no contention.
Program chain(std::uint64_t bytes) {
  return [bytes](Rank& rank) -> Task<> {
    const Buffer buffer(rank.allocate(bytes), bytes);
    for (int round = 0; round < 3; ++round) {
      const int last = rank.size() - 1, me = rank.rank();
      if (round + me > 0) co_await rank.wait(rank.receive(me == 0 ? last : me - 1, buffer, round));
      co_await rank.read(buffer.address, bytes);
      co_await rank.write(buffer.address, bytes / 2);
      const int next_round = me == last ? round + 1 : round;
      if (next_round < 3) co_await rank.wait(rank.send(me == last ? 0 : me + 1, buffer, next_round));
    }
  };
}

// Does a policy that is one of several in a run give the same times and counts as in a run of its own, at every speed?
void variants_are_separate_runs() {
  const std::vector<std::string> policies{"header-payload", "memory", "ddio:ways=1", "adaptive:small_bytes=512"};
  for (const char* way : {"zero-copy", "eager-rendezvous"})
    for (const std::uint64_t bytes : {64u, 1000u, 5000u, 150000u}) {
      Machine machine = test_machine();
      machine.messaging.network = way;
      const Outcome combined = Cluster(machine, options(4, 1, true, policies)).run(chain(bytes));
      for (std::size_t p = 0; p < policies.size(); ++p) {
        const Outcome alone = Cluster(machine, options(4, 1, true, {policies[p]})).run(chain(bytes));
        for (std::size_t r = 0; r < 4; ++r)
          CHECK(alone.ranks[r].finish_time[0] == combined.ranks[r].finish_time[static_cast<int>(p)]);
        CHECK(same(alone.variants[0].memory, combined.variants[p].memory));
      }
    }
}

std::string failure(const Machine& machine, const ClusterOptions& cluster_options, const Program& program) {
  try {
    Cluster(machine, cluster_options).run(program);
  } catch (const std::exception& problem) {
    return problem.what();
  }
  return "";
}

bool names(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return true;
  std::printf("'%s' does not say '%s'\n", text.c_str(), part.c_str());
  return false;
}

// Is a deadlock reported, with the ranks that wait for each other, and for which message?
void deadlocks_are_reported() {
  Machine machine = test_machine();
  machine.messaging.network = "rendezvous";
  const std::string text = failure(machine, options(4, 1, true), [](Rank& rank) -> Task<> {
    const Buffer buffer(rank.allocate(64), 64);
    if (rank.rank() == 0) co_await rank.wait(rank.receive(1, buffer, 1));
    if (rank.rank() == 1) co_await rank.wait(rank.send(0, buffer, 2));
    if (rank.rank() == 2) co_await rank.barrier();
  });
  CHECK(names(text, "rank 0 waits for 64 bytes from rank 1 with tag 1"));
  CHECK(names(text, "rank 1 waits for rank 0 to receive 64 bytes with tag 2"));
  CHECK(names(text, "rank 2 waits for all ranks at the barrier"));
  CHECK(text.find("rank 3") == std::string::npos);
}

// Do a program's exceptions propagate from any depth, and are impossible options refused by name?
void mistakes_are_reported() {
  const Machine machine = test_machine();
  CHECK(names(failure(machine, options(2, 1, true),
                      [](Rank& rank) -> Task<> {
                        co_await rank.barrier();
                        if (rank.rank() == 1) throw std::runtime_error("no more");
                        co_await rank.wait(rank.receive(1, Buffer(4096, 8), 0));
                      }),
              "no more"));
  CHECK(names(failure(machine, options(2, 1, true),
                      [](Rank& rank) -> Task<> {
                        const Request request =
                            rank.rank() ? rank.receive(0, Buffer(4096, 8), 3) : rank.send(1, Buffer(4096, 9), 3);
                        co_await rank.wait(request);
                      }),
              "rank 1 receives 8 bytes at most from rank 0 with tag 3, but 9 were sent"));
  CHECK(names(
      failure(machine, options(2, 1, true), [](Rank& rank) -> Task<> { co_await rank.wait(rank.send(2, {}, 0)); }),
      "there are 0 to 1"));
  CHECK(names(failure(machine, options(65, 1, true), one_message(8)), "nodes: from 1 to 64"));
  CHECK(names(failure(machine, options(2, 5, true), one_message(8)), "ranks_per_node: from 1 to 4"));
  ClusterOptions cores = options(1, 2, true);
  cores.cores = {3, 4};
  CHECK(names(failure(machine, cores, one_message(8)), "cores: from 0 to 3"));
  cores.cores = {3, 3};
  CHECK(names(failure(machine, cores, one_message(8)), "3 is there twice"));
  cores.cores = {3, 1};
  CHECK(failure(machine, cores, one_message(8)).empty());
  cores.cores = {3};
  CHECK(names(failure(machine, cores, one_message(8)), "as many as ranks_per_node"));
  CHECK(names(failure(machine, options(2, 1, true, {}), one_message(8)), "policies: from 1 to 8"));
  Machine other = machine;
  other.messaging.node = "copy-in-copy";
  CHECK(names(failure(other, options(1, 2, true), one_message(8)), "nearest is 'copy-in-copy-out'"));
  other.messaging.node = "zero-copy";
  CHECK(names(failure(other, options(1, 2, true), one_message(8)), "within a node"));
  other = machine;
  other.network.reset();
  CHECK(names(failure(other, options(2, 1, true), one_message(8)), "no network"));
  CHECK(failure(other, options(1, 2, true), one_message(8)).empty());
}

// Does a repeated barrier resume all ranks at the last one's clock plus the network's latency, and do marks measure
// from start to stop?
void ranks_meet_at_a_barrier() {
  Cluster cluster(test_machine(), options(4, 2, false));
  const Outcome outcome = cluster.run([](Rank& rank) -> Task<> {
    for (int round = 0; round < 3; ++round) {
      rank.compute((rank.rank() + round) % 8 * ns);
      co_await rank.barrier();
      rank.start_mark();
      rank.compute(rank.rank() * ns);
      rank.stop_mark();
    }
  });
  for (std::size_t r = 0; r < 8; ++r) {
    const auto& marks = outcome.ranks[r].marks;
    CHECK(marks.size() == 3);
    for (std::size_t round = 0; round < 3; ++round) {
      CHECK(marks[round].start == outcome.ranks[0].marks[round].start);
      CHECK(everywhere(marks[round].stop - marks[round].start, static_cast<double>(r)));
    }
  }
  CHECK(everywhere(outcome.ranks[0].marks[0].start, 1000 + 7));
  CHECK(outcome.messages == 0);
}

// Can a cluster run again, with its cache contents kept and its counts reset?
void a_cluster_runs_twice() {
  Cluster cluster(test_machine(), options(2, 1, true));
  const Program program = [](Rank& rank) -> Task<> { co_await rank.read(4096, 1024); };
  const Outcome cold = cluster.run(program), warm = cluster.run(program);
  CHECK(cold.variants[0].memory.dram.reads == 16);
  CHECK(warm.variants[0].memory.dram.reads == 0);
  CHECK_THROWS(cluster.run([](Rank& rank) -> Task<> { co_await rank.wait(rank.receive(0, {}, 0)); }));
  CHECK_THROWS(cluster.run(program));  // an aborted run is not resumed
  CHECK(warm.ranks[0].finish_time.first() > cold.ranks[0].finish_time.first());
}

}  // namespace

int main() {
  protocols_are_loggp();
  nics_hold_messages();
  slow_memory_holds_back();
  node_protocols_add_up();
  random_traffic_arrives();
  variants_are_separate_runs();
  deadlocks_are_reported();
  mistakes_are_reported();
  ranks_meet_at_a_barrier();
  a_cluster_runs_twice();
  return failed_checks == 0 ? 0 : 1;
}

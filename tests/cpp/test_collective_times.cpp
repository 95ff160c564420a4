// Do collectives take the times of their algorithms? On a network without memory effects these are computed by hand, by
// the LogGP model; on a machine with memory they are compared.
#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.hpp"
#include "sim/run/collective_workload.hpp"
#include "test_machine.hpp"

namespace {

using namespace nearfield::sim;
using nearfield::CollectiveAlgorithms;
using nearfield::Machine;

// LogGP parameters of test_machine's zero-copy messages without memory effects: a send costs its core o_s = 3 + 30
// ns, and a receive o_r = 5 + 30; the event is visible d = 70 ns after the last byte, and to handle it costs 7 ns. The
// wire has L = 1000 ns, and G = 1 ns per byte on the link, 0.5 at the sender's NIC, which has a gap g = 200 ns.
constexpr double o_s = 33, o_r = 35, d = 70, match = 7, latency = 1000, gap = 200;

Machine zero_copy_machine() {
  Machine machine = test_machine();
  machine.messaging.network = "zero-copy";
  return machine;
}

double time_ns(const std::string& name, int ranks, std::uint64_t bytes, int root = 0) {
  ClusterOptions options;
  options.nodes = ranks;
  options.has_memory_effects = false;
  options.placement_policy_names = {"memory", "payload-l3"};
  Cluster cluster(zero_copy_machine(), options);
  const auto repetitions = measure_collective(cluster, {name, bytes, root, 3});
  for (const auto& one : repetitions) CHECK(one.time == repetitions.front().time);
  for (int speed = 0; speed < num_memory_speeds; ++speed)
    CHECK(repetitions[0].time[0][speed] == repetitions[0].time.first() &&
          repetitions[0].time[1][speed] == repetitions[0].time.first());
  return repetitions.front().time.first() / 1e3;
}

void same_ns(double simulated, double by_hand) {
  if (simulated != by_hand) std::printf("%.3f ns, by hand %.3f ns\n", simulated, by_hand);
  CHECK(simulated == by_hand);
}

// Does a binomial bcast take one message per level on its longest path? A parent waits for each send (until its NIC has
// read the data) before the next one; its last child is a leaf.
void binomial_bcast_is_loggp() {
  for (const int ranks : {2, 3, 4, 5, 7}) {
    for (const double bytes : {0.0, 1.0, 100.0, 5000.0}) {
      if (bytes == 0) {
        same_ns(time_ns("bcast", ranks, 0), 0);
        continue;
      }
      // arrival[place]: when the place has the message; a send completes when the NIC has read the data and written an
      // event. The NIC keeps the gap between messages.
      std::vector<double> arrival(static_cast<std::size_t>(ranks), 0), done(arrival);
      for (int place = 0; place < ranks; ++place) {
        int distance = 1;
        while (place % (2 * distance) == 0 && distance < ranks) distance *= 2;
        double now = arrival[static_cast<std::size_t>(place)], nic_free = 0;
        for (distance /= 2; distance > 0; distance /= 2) {
          if (place + distance >= ranks) continue;
          const double start = std::max(now + o_s, nic_free);
          nic_free = start + std::max(gap, bytes / 2);
          arrival[static_cast<std::size_t>(place + distance)] = start + latency + bytes + d + match;
          now = start + bytes / 2 + d;
        }
        done[static_cast<std::size_t>(place)] = now;
      }
      for (int root = 0; root < ranks; ++root)
        same_ns(time_ns("bcast", ranks, static_cast<std::uint64_t>(bytes), root),
                *std::max_element(done.begin(), done.end()));
    }
  }
}

// Returns the time of a sendrecv that all ranks begin together: both calls, the wire, the event, and its handling; the
// answer to the send arrives long before.
double exchange_ns(double bytes) { return o_r + o_s + latency + bytes + d + match; }

// Does a ring take p - 1 exchanges of a block?
void ring_allgather_is_loggp() {
  for (const int ranks : {3, 5, 6, 7}) {
    const double block = 81920.0 / ranks + 100;
    const auto bytes = static_cast<std::uint64_t>(block);
    same_ns(time_ns("allgather", ranks, bytes), (ranks - 1) * exchange_ns(static_cast<double>(bytes)));
  }
}

// Does recursive doubling take log2 p exchanges, of doubling sizes in an allgather, of the whole vector in an
// allreduce?
void recursive_doubling_is_loggp() {
  for (const int ranks : {2, 4, 8, 16, 32, 64})
    for (const double bytes : {1.0, 64.0, 2000.0}) {
      double gathered = 0, reduced = 0, messages = 0;
      for (int have = 1; have < ranks; have *= 2) {
        gathered += exchange_ns(have * bytes);
        reduced += exchange_ns(bytes);
        ++messages;
      }
      same_ns(time_ns("allgather", ranks, static_cast<std::uint64_t>(bytes)), gathered);
      same_ns(time_ns("allreduce", ranks, static_cast<std::uint64_t>(bytes)), reduced);
      same_ns(time_ns("barrier", ranks, 0), messages * exchange_ns(0));
    }
}

// ---- on a machine with memory

// Are runs identical to the last digit, and do injected lines save DRAM reads?
void runs_repeat() {
  ClusterOptions options;
  options.nodes = 8;
  options.placement_policy_names = {"memory", "payload-l3"};
  options.memory_slowdown = {1, 2.5, 5, 7.5};
  std::vector<std::vector<Repetition>> both;
  for (int i = 0; i < 2; ++i) {
    Cluster cluster(zero_copy_machine(), options);
    both.push_back(measure_collective(cluster, {"allreduce", 65536, 0, 3}));
  }
  for (std::size_t r = 0; r < 3; ++r) {
    CHECK(both[0][r].time == both[1][r].time && both[0][r].events == both[1][r].events);
    for (std::size_t v = 0; v < 2; ++v)
      CHECK(both[0][r].variants[v].memory.dram.bytes == both[1][r].variants[v].memory.dram.bytes);
    CHECK(both[0][r].variants[1].memory.dram.reads < both[0][r].variants[0].memory.dram.reads);
    CHECK(both[0][r].variants[1].memory.levels[2].injections > 0);
  }
}

// Do two ranks exchange each byte of an allgather once, as Open MPI does, and without a copy of what they send?
void allgather_of_two_sends_the_original() {
  ClusterOptions options;
  options.ranks_per_node = 2;
  Machine machine = test_machine();
  const auto copied = [&](CollectiveAlgorithms algorithms) {
    machine.messaging.collectives = algorithms;
    Cluster cluster(machine, options);
    const auto repetitions = measure_collective(cluster, {"allgather", 65536, 0, 2});
    return repetitions.back().time.first();
  };
  CHECK(copied(CollectiveAlgorithms::openmpi) < copied(CollectiveAlgorithms::mpich));
}

std::string refusal(const CollectiveRequest& request) {
  ClusterOptions options;
  options.nodes = 4;
  Cluster cluster(zero_copy_machine(), options);
  try {
    measure_collective(cluster, request);
  } catch (const std::invalid_argument& problem) {
    return problem.what();
  }
  return "";
}

// Are unknown names and roots refused, with valid ones in the message?
void refusals_help() {
  CHECK(refusal({"allgahter", 8, 0, 1}).find("'allgather'") != std::string::npos);
  CHECK(refusal({"bcast", 8, 4, 1}).find("from 0 to 3") != std::string::npos);
  CHECK(refusal({"bcast", 8, -1, 1}).find("from 0 to 3") != std::string::npos);
}

}  // namespace

int main() {
  binomial_bcast_is_loggp();
  ring_allgather_is_loggp();
  recursive_doubling_is_loggp();
  runs_repeat();
  allgather_of_two_sends_the_original();
  refusals_help();
  if (failed_checks == 0) std::printf("times of collectives: right\n");
  return failed_checks == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

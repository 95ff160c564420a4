// Do collectives through shared memory take the time on a simulated machine that its latencies give by hand?
#include <cstdio>
#include <map>
#include <string>

#include "check.hpp"
#include "machine/machine.hpp"
#include "sim/run/scenario.hpp"

namespace {

using namespace nearfield::sim;
using nearfield::Cache;
using nearfield::Machine;
using nearfield::Parameters;

// Cores at 1 GHz. Each has a cache of 64 KiB; each four share one of 1 MiB. A line of another core arrives in 20
// ns inside such a group, and in 100 ns from the other group.
Machine grouped_machine(int cores, int group) {
  Machine machine;
  machine.name = "made-up";
  machine.cores = cores;
  machine.core = {1.0, 1.0, 8};
  Cache own;
  own.size_bytes = 64 << 10;
  own.ways = 64;
  own.line_bytes = 64;
  own.latency_cycles = 1;
  Cache shared = own;
  shared.size_bytes = 1 << 20;
  shared.shared_by = group;
  shared.latency_cycles = 10;
  machine.caches = {own, shared};
  machine.dram.latency_ns = 200;
  machine.dram.gb_per_s = 1e6;
  machine.transfers.shared_cycles = 20;
  machine.transfers.remote_cycles = 100;
  return machine;
}

struct Times {
  double min = 0, max = 0;
};

Times run(const std::string& operation, const std::string& algorithm, std::int64_t bytes, std::int64_t ranks = 8,
          int group = 4, int cores = 8) {
  const Machine machine = grouped_machine(cores, group);
  const Parameters parameters{
      {"operation", operation}, {"algorithm", algorithm}, {"size_bytes", bytes}, {"ranks", ranks}};
  std::map<std::string, double> values;
  for (const auto& result : find_scenario("node-collective").run({machine, {}, parameters}))
    if (result.value) values[result.metric] = *result.value;
  std::printf("%s %s %d B, %d ranks: %.0f to %.0f ns\n", operation.c_str(), algorithm.c_str(), static_cast<int>(bytes),
              static_cast<int>(ranks), values["min_time"], values["max_time"]);
  return {values["min_time"], values["max_time"]};
}

void test_a_barrier_takes_transfers_of_lines() {
  const Times two = run("barrier", "flat", 0, 2), all = run("barrier", "flat", 0);
  CHECK(two.min >= 20 && two.max < 100);        // a line crosses inside the group
  CHECK(all.min >= 100);                        // the lines of four ranks of the other group arrive at the same time,
  CHECK(all.max >= 4 * 100 && all.max < 1000);  // or one after the other
}

void test_groups_fetch_a_line_in_turn() {
  const Times times = run("bcast", "flat", 8, 8, 2);
  CHECK(times.min >= 100 && times.min < 200);      // three groups fetch the root's line at the same time,
  CHECK(times.max >= 3 * 100 && times.max < 500);  // or one after the other
}

void test_groups_help_where_lines_come_from_far() {
  const Times flat = run("barrier", "flat", 0), grouped = run("barrier", "grouped", 0);
  CHECK(grouped.max >= 100 + 2 * 20);  // between leaders, and on both sides of that inside the groups
  CHECK(grouped.max < flat.max);
  CHECK(run("allreduce", "grouped", 8).max < run("allreduce", "whole", 8).max);
}

// 160 ranks: doubling has 8 operations, whose lines are reused from the third call on. If reuse had to be checked, a
// rank would read a line of each of the other ranks.
void test_doubling_never_reads_from_all_ranks() {
  for (const char* operation : {"allreduce", "allgather", "barrier"})
    CHECK(run(operation, "doubling", operation == std::string("barrier") ? 0 : 8, 160, 4, 160).max < 8 * 4 * 100);
}

void test_doubling_takes_a_step_per_power_of_two() {
  const Times few = run("alltoall", "doubling", 8, 8);
  CHECK(few.min >= 3 * 20 && few.max < 3 * 4 * 100);   // three steps, in each of which a line and a slot are read
  CHECK_THROWS(run("alltoall", "doubling", 2049, 8));  // half of the blocks do not fit into a slot
}

void test_the_bounds_are_in_order() {
  for (const char* operation : {"barrier", "bcast", "reduce", "allreduce", "allgather", "alltoall"}) {
    const Times times = run(operation, "flat", operation == std::string("barrier") ? 0 : 4096);
    CHECK(times.min > 0 && times.max >= times.min);
  }
}

void test_slices_divide_the_work() {
  const double whole = run("allreduce", "whole", 65536).min, slices = run("allreduce", "slices", 65536).min;
  CHECK(slices < whole / 3);  // eight ranks add an eighth each, and read the rest
}

void test_times_are_reproducible() {
  const Times one = run("allreduce", "grouped", 4096), again = run("allreduce", "grouped", 4096);
  CHECK(one.min == again.min && one.max == again.max);
}

void test_wrong_requests_are_errors() {
  CHECK_THROWS(run("sum", "flat", 8));
  CHECK_THROWS(run("bcast", "best", 8));
  CHECK_THROWS(run("bcast", "flat", 8, 1));
  CHECK_THROWS(run("bcast", "flat", 8, 9));
}

}  // namespace

int main() {
  test_a_barrier_takes_transfers_of_lines();
  test_groups_fetch_a_line_in_turn();
  test_groups_help_where_lines_come_from_far();
  test_doubling_never_reads_from_all_ranks();
  test_doubling_takes_a_step_per_power_of_two();
  test_the_bounds_are_in_order();
  test_slices_divide_the_work();
  test_times_are_reproducible();
  test_wrong_requests_are_errors();
  return failed_checks > 0;
}

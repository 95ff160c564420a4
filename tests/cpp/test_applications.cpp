// Do simulated applications make the accesses and send the messages of the programs that they model?
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/registry.hpp"
#include "check.hpp"
#include "sim/run/app/amg_problem.hpp"
#include "sim/run/app/application.hpp"
#include "sim/run/app/distributed.hpp"
#include "test_machine.hpp"

namespace {

using namespace nearfield::sim;
using multigrid::Matrix;
using multigrid::MultigridLevel;

std::vector<MultigridLevel> problem(int ranks, int refinement) {
  auto made = multigrid::make_amg_problem(ranks, refinement);
  return multigrid::build_hierarchy(std::move(made.matrix), std::move(made.first_row_by_rank));
}

double entry(const Matrix& a, int row, int column) {
  double sum = 0;
  for (int k = a.begin[row]; k < a.begin[row + 1]; ++k) sum += a.column[k] == column ? a.value[k] : 0;
  return sum;
}

// ---- multigrid

// Does the benchmark's problem have 48 unknowns per rank, in rows of 4 to 9 entries, is it symmetric, and has it a
// boundary?
void problem_is_the_benchmarks() {
  const Matrix a = multigrid::make_amg_problem(16, 2).matrix;
  CHECK(a.rows == 16 * 48 * 8 && a.columns == a.rows);
  bool bounded = false;
  for (int i = 0; i < a.rows; ++i) {
    const int entries = a.begin[i + 1] - a.begin[i];
    double sum = 0;
    CHECK(entries >= 4 && entries <= 9);
    for (int k = a.begin[i]; k < a.begin[i + 1]; ++k) {
      CHECK(std::abs(a.value[k] - entry(a, a.column[k], i)) < 1e-12);
      sum += a.value[k];
    }
    CHECK(sum > -1e-12);
    bounded = bounded || sum > 0.05;
  }
  CHECK(bounded);
}

// Are coarse operators P^T A P, and does interpolation preserve a constant, except near the boundary?
void coarse_operators_are_galerkins() {
  const auto levels = problem(8, 1);
  CHECK(levels.size() >= 3);
  const Matrix &a = levels[0].matrix, &p = levels[0].interpolation, &c = levels[1].matrix;
  CHECK(p.rows == a.rows && p.columns == c.rows && c.rows < a.rows / 4);
  for (int i = 0; i < c.rows; i += 7)
    for (int j = 0; j < c.rows; j += 5) {
      double sum = 0;
      for (int row = 0; row < a.rows; ++row) {
        const double left = entry(p, row, i);
        for (int k = a.begin[row]; left != 0 && k < a.begin[row + 1]; ++k)
          sum += left * a.value[k] * entry(p, a.column[k], j);
      }
      CHECK(std::abs(sum - entry(c, i, j)) < 1e-9);
    }
  int whole = 0;
  for (int i = 0; i < a.rows; ++i) {
    double weight_sum = 0;
    for (int k = p.begin[i]; k < p.begin[i + 1]; ++k) weight_sum += p.value[k];
    CHECK(weight_sum <= 1 + 1e-9);
    whole += weight_sum > 1 - 1e-9;
  }
  CHECK(whole > c.rows);
}

// Does it converge as multigrid does: in few iterations, and hardly more for a problem 64 times as large?
void the_solver_converges() {
  CHECK(multigrid::count_pcg_iterations(problem(8, 1)) <= 8);
  CHECK(multigrid::count_pcg_iterations(problem(64, 2)) <= 14);
}

// ---- messages

// Does every rank receive each remote entry that it needs once, from its owner?
void cuts_fit_together() {
  const auto levels = problem(16, 1);
  const auto ranks = partition_by_rows(levels[0].matrix, levels[0].first_row_by_rank, levels[0].first_row_by_rank);
  std::uint64_t sent = 0, received = 0, entries = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    entries += ranks[r].own_columns.column.size() + ranks[r].other_columns.column.size();
    for (const auto& one : ranks[r].sends) sent += one.count;
    for (const auto& one : ranks[r].receives) {
      received += one.count;
      CHECK(one.rank != static_cast<int>(r));
      bool found = false;
      for (const auto& package : ranks[static_cast<std::size_t>(one.rank)].sends)
        found = found || (package.rank == static_cast<int>(r) && package.count == one.count);
      CHECK(found);
    }
    for (const int place : ranks[r].other_columns.column)
      CHECK(place >= 0 && place < static_cast<int>(ranks[r].num_received));
  }
  CHECK(sent == received && entries == levels[0].matrix.column.size());
}

nearfield::Machine zero_copy_machine() {
  nearfield::Machine machine = test_machine();
  machine.messaging.network = "zero-copy";
  return machine;
}

struct Traffic {
  std::uint64_t messages = 0, bytes = 0;
  void add(const Matrix& matrix, const std::vector<int>& rows, const std::vector<int>& columns, std::uint64_t times) {
    for (const auto& rank : partition_by_rows(matrix, rows, columns))
      for (const auto& one : rank.sends) {
        messages += times;
        bytes += times * one.count * 8;
      }
  }
};

Repetition run(const char* application, int nodes, std::uint64_t bytes) {
  ClusterOptions options;
  options.nodes = nodes;
  Cluster cluster(zero_copy_machine(), options);
  const auto workload =
      nearfield::find_named(all_applications(), application, "application").make(cluster.num_ranks(), bytes);
  return measure_workload(cluster, *workload, 1).front();
}

// A V-cycle exchanges a level's vector for both relaxations and the residual, and once in each direction between
// levels; the solver adds a product on the finest level and three sums of 8 bytes per iteration.
void amg_sends_what_cycles_need() {
  const auto levels = problem(8, 1);
  const auto iterations = static_cast<std::uint64_t>(multigrid::count_pcg_iterations(levels)), cycles = iterations + 1;
  Traffic expected;
  for (std::size_t l = 0; l < levels.size(); ++l) {
    const bool last = l + 1 == levels.size();
    expected.add(levels[l].matrix, levels[l].first_row_by_rank, levels[l].first_row_by_rank,
                 cycles * (last ? 1 : 3) + (l == 0 ? cycles : 0));
    if (!last)
      expected.add(levels[l].interpolation, levels[l].first_row_by_rank, levels[l + 1].first_row_by_rank, 2 * cycles);
  }
  const std::uint64_t sums = 2 + 3 * iterations, of_a_sum = 8 * 3;  // recursive doubling over 8 ranks
  const Repetition found = run("amg", 8, 384);
  CHECK(found.messages == expected.messages + sums * of_a_sum);
  CHECK(found.network_bytes == expected.bytes + sums * of_a_sum * 8);
}

// Three alltoalls: all blocks but a rank's own are sent, one message to each other rank.
void fft_sends_everything_three_times() {
  const Repetition found = run("fft", 4, 4096 * 16);
  CHECK(found.messages == 3 * 4 * 3);
  CHECK(found.network_bytes == 3 * 4 * 3 * (4096 * 16 / 4));
}

// ---- accesses

// 64 points on one rank are 4 x 4 x 4. Words loaded and stored per number: 2 + 2 in the two transpositions, in the
// gather and scatter along z, in the reordering and the last copy, and in three alltoalls to itself; 2 more for each
// factor, in both loops along y; and 48 columns of 4 numbers in one pass of radix 4, with one root each.
void fft_counts_by_hand() {
  const Repetition found = run("fft", 1, 64 * 16);
  const auto& nearest = found.variants.front().memory.levels.front();
  CHECK(nearest.hits + nearest.misses == 64 * (4 * (2 + 2 + 1 + 1 + 3) + 6 * 2) + 48 * (8 + 8 + 2));
}

// Can the progress callback end a long run?
void a_run_can_be_left() {
  ClusterOptions options;
  options.nodes = 8;
  int calls = 0;
  options.progress_callback = [&calls] {
    if (++calls == 4) throw std::runtime_error("enough");
  };
  Cluster cluster(zero_copy_machine(), options);
  const auto workload = nearfield::find_named(all_applications(), "amg", "application").make(8, 384);
  CHECK_THROWS(measure_workload(cluster, *workload, 1));
  CHECK(calls == 4);  // before the set-up, before the run, and twice during it
}

std::string refusal(const char* application, int ranks, std::uint64_t bytes) {
  try {
    nearfield::find_named(all_applications(), application, "application").make(ranks, bytes);
  } catch (const std::invalid_argument& problem) {
    return problem.what();
  }
  return "";
}

// Are problems that cannot be partitioned refused, with sizes that can?
void refusals_help() {
  CHECK(refusal("amg", 12, 384).find("multiples of 8") != std::string::npos);
  CHECK(refusal("amg", 8, 385).find("3072") != std::string::npos);
  CHECK(refusal("fft", 6, 65536).find("powers of two") != std::string::npos);
  CHECK(refusal("fft", 8, 64).find("powers of two") != std::string::npos);
  CHECK(refusal("ftf", 8, 64).find("'fft'") != std::string::npos);
}

}  // namespace

int main() {
  problem_is_the_benchmarks();
  coarse_operators_are_galerkins();
  the_solver_converges();
  cuts_fit_together();
  amg_sends_what_cycles_need();
  fft_sends_everything_three_times();
  fft_counts_by_hand();
  a_run_can_be_left();
  refusals_help();
  if (failed_checks == 0) std::printf("applications: right\n");
  return failed_checks == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

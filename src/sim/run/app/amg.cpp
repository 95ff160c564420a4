// AMG of the Sequoia benchmarks, as in paper S4 (papers/S4/README.md), section 3: the solve phase of the benchmark's
// default problem, conjugate gradients preconditioned by algebraic multigrid. The operators of all levels, the number
// of iterations and the communication pattern come from a real setup (multigrid.hpp), which is not simulated, as in S4.
// Every product, relaxation and vector operation makes the accesses of hypre's loops, every exchange makes hypre's
// calls of Irecv, Isend and Waitall, and every dot product makes an allreduce of 8 bytes. The arithmetic is a
// multiply-add for each element of a sparse row or of a dot product, which depends on the previous sum, as in hypre's
// loops. Not modeled: the setup phase's accesses and messages, divisions, loop overhead beyond the cost of an access.
#include <cmath>
#include <stdexcept>

#include "machine/machine.hpp"
#include "sim/mpi/collectives/on_rank.hpp"
#include "sim/run/app/amg_problem.hpp"
#include "sim/run/app/application.hpp"
#include "sim/run/app/distributed.hpp"

namespace nearfield::sim {
namespace {

constexpr std::uint64_t word_bytes = 8,
                        min_unknowns_bytes = 48 * word_bytes;  // bytes of one rank's unknowns without refinement
constexpr int tag = 1 << 20;

// One rank's part of a level.
struct GridLevel {
  std::uint64_t rows = 0;
  RankMatrix matrix, interpolation;
  Address u = 0, f = 0, residual = 0, weights = 0;
  std::uint64_t vector_bytes() const { return rows * word_bytes; }
};

struct RankPart {
  std::vector<GridLevel> levels;
  std::unique_ptr<RankCommunicator> comm;
  Address x = 0, r = 0, p = 0, s = 0;
  Address sum = 0, total = 0;  // arguments of the allreduce
};

class PcgSolve {
 public:
  PcgSolve(Rank& rank, RankPart& part, int iterations) : rank_(rank), part_(part), iterations_(iterations) {}

  // Computes the initial residual, then iterates, as hypre's pcg.c does.
  Task<> run_pcg() {
    GridLevel& finest = part_.levels.front();
    co_await multiply(rank_, finest.matrix, part_.x, part_.r, true);
    co_await precondition(part_.p);
    co_await dot_product(part_.r, part_.p);
    co_await dot_product(part_.r, part_.r);
    for (int i = 0; i < iterations_; ++i) {
      co_await multiply(rank_, finest.matrix, part_.p, part_.s, false);
      co_await dot_product(part_.s, part_.p);
      co_await axpy(part_.p, part_.x);
      co_await axpy(part_.s, part_.r);
      co_await precondition(part_.s);
      co_await dot_product(part_.r, part_.s);
      co_await dot_product(part_.r, part_.r);
      co_await axpy(part_.s, part_.p);
    }
  }

 private:
  // Applies the preconditioner: solves for the residual r by one V-cycle with the initial guess 0, and copies the
  // result to `into`.
  Task<> precondition(Address into) {
    GridLevel& finest = part_.levels.front();
    co_await rank_.copy(finest.f, part_.r, finest.vector_bytes());
    co_await rank_.write(finest.u, finest.vector_bytes());
    co_await run_v_cycle(0);
    co_await rank_.copy(into, finest.u, finest.vector_bytes());
  }

  Task<> run_v_cycle(std::size_t level) {
    GridLevel& current = part_.levels[level];
    co_await relax_level(current);
    if (level + 1 == part_.levels.size()) co_return;
    GridLevel& next = part_.levels[level + 1];
    co_await rank_.copy(current.residual, current.f, current.vector_bytes());
    co_await multiply(rank_, current.matrix, current.u, current.residual, true);
    co_await multiply_transposed(rank_, current.interpolation, current.residual, next.f, next.rows);
    co_await rank_.write(next.u, next.vector_bytes());
    co_await run_v_cycle(level + 1);
    co_await multiply(rank_, current.interpolation, next.u, current.u, true);
    co_await relax_level(current);
  }

  // Does a symmetric Gauss-Seidel sweep over the rank's own rows, with the previous values of other ranks' unknowns.
  Task<> relax_level(const GridLevel& grid) {
    co_await exchange_unknowns(rank_, grid.matrix, grid.u);
    AccessBatch batch(rank_);
    for (std::uint64_t i = 0; i < 2 * grid.rows; ++i) {
      const std::uint64_t row = i < grid.rows ? i : 2 * grid.rows - 1 - i;
      batch.add_load(grid.f + row * word_bytes);
      batch.add_load(grid.weights + row * word_bytes);
      access_row(batch, grid.matrix.own_columns, row, grid.u, true);
      access_row(batch, grid.matrix.other_columns, row, grid.matrix.receive_buffer, true);
      batch.add_store(grid.u + row * word_bytes);
      if (batch.is_full()) co_await batch.flush();
    }
    co_await batch.flush();
  }

  Task<> dot_product(Address a, Address b) {
    AccessBatch batch(rank_);
    for (std::uint64_t at = 0; at < part_.levels.front().vector_bytes(); at += word_bytes) {
      batch.add_load(a + at);
      batch.add_load(b + at);
      batch.add_dependent_flops(1, 2);
      if (batch.is_full()) co_await batch.flush();
    }
    co_await batch.flush();
    co_await rank_.write(part_.sum, word_bytes);
    co_await allreduce_collective.run(*part_.comm, {part_.sum, part_.total, word_bytes, 0});
    co_await rank_.read(part_.total, word_bytes);
  }

  Task<> axpy(Address from, Address into) { return rank_.combine(into, from, part_.levels.front().vector_bytes()); }

  Rank& rank_;
  RankPart& part_;
  int iterations_;
};

class Amg final : public Workload {
 public:
  Amg(int ranks, int refinement) : parts_(static_cast<std::size_t>(ranks)) {
    auto problem = multigrid::make_amg_problem(ranks, refinement);
    const auto levels = multigrid::build_hierarchy(std::move(problem.matrix), std::move(problem.first_row_by_rank));
    iterations_ = multigrid::count_pcg_iterations(levels);
    for (std::size_t l = 0; l < levels.size(); ++l) {
      auto matrices = partition_by_rows(levels[l].matrix, levels[l].first_row_by_rank, levels[l].first_row_by_rank);
      std::vector<RankMatrix> interpolations(parts_.size());
      if (l + 1 < levels.size())
        interpolations =
            partition_by_rows(levels[l].interpolation, levels[l].first_row_by_rank, levels[l + 1].first_row_by_rank);
      for (std::size_t r = 0; r < parts_.size(); ++r) {
        GridLevel grid;
        grid.rows = matrices[r].own_columns.num_rows();
        grid.matrix = std::move(matrices[r]);
        grid.interpolation = std::move(interpolations[r]);
        parts_[r].levels.push_back(std::move(grid));
      }
    }
  }

  Task<> set_up(Rank& rank) override {
    RankPart& part = part_of_rank(rank);
    part.comm = std::make_unique<RankCommunicator>(rank, tag);
    RankHeap heap(rank);
    for (GridLevel& grid : part.levels) {
      co_await allocate_matrix(heap, grid.matrix);
      if (&grid != &part.levels.back()) co_await allocate_matrix(heap, grid.interpolation);
      for (Address* vector : {&grid.u, &grid.f, &grid.residual, &grid.weights})
        co_await heap.allocate(*vector, grid.vector_bytes());
    }
    for (Address* vector : {&part.x, &part.r, &part.p, &part.s})
      co_await heap.allocate(*vector, part.levels.front().vector_bytes());
    for (Address* number : {&part.sum, &part.total}) co_await heap.allocate(*number, word_bytes);
  }

  Task<> run(Rank& rank) override {
    PcgSolve solve(rank, part_of_rank(rank), iterations_);
    co_await solve.run_pcg();
  }

 private:
  RankPart& part_of_rank(const Rank& rank) { return parts_[static_cast<std::size_t>(rank.rank())]; }

  int iterations_ = 0;
  std::vector<RankPart> parts_;
};

std::unique_ptr<Workload> make_amg(int ranks, std::uint64_t bytes) {
  const auto refinement = static_cast<int>(std::lround(std::cbrt(static_cast<double>(bytes) / min_unknowns_bytes)));
  const auto cube = static_cast<std::uint64_t>(refinement) * static_cast<std::uint64_t>(refinement * refinement);
  if (refinement < 1 || cube * min_unknowns_bytes != bytes)
    throw std::invalid_argument("amg: " + std::to_string(bytes) +
                                " B of unknowns; 384 times a cube would work: 384, 3072, 10368");
  return std::make_unique<Amg>(ranks, refinement);
}

}  // namespace

// Paper S4 uses a refinement of one, because of the simulation time.
extern const ApplicationSpec amg_application;
const ApplicationSpec amg_application{"amg",
                                      "the AMG benchmark: its default problem solved by multigrid and PCG",
                                      "one rank's unknowns, 8 bytes each",
                                      {384},
                                      make_amg};

}  // namespace nearfield::sim

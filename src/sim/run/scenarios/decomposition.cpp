// Paper S3 (papers/S3/README.md), section 5: a finite-difference application on a grid of n^3 cells, stored (x, y, z)
// with z contiguous, split over ranks. Every iteration sweeps a 7-point stencil from one array into another (a cell has
// two doubles), then all ranks exchange the faces of the new array with all neighbors at once, as MPI datatypes. There
// are seven loads and a store per cell; arithmetic takes no time. Split dimensions have ghost cells; if the parameter
// `ghosts` is "all", every dimension has ghost cells. A z face includes the ghost rows of y, so that its elements have
// one stride. Ranks are placed on nodes in the order of x, y, z. Not modeled: reordering of ranks.
#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>

#include "machine/machine.hpp"
#include "sim/run/scenarios/pair.hpp"

namespace nearfield::sim {
namespace {

constexpr int tag = 10;
constexpr std::uint64_t element_bytes = 8;
constexpr std::uint64_t elements_per_piece = 64;  // elements of a row that are accessed operand by operand
// Before the counted iterations, every page is touched, and a warm-up sweep updates the last rows, as many as fill the
// caches twice; earlier rows would be evicted again. If these are not all rows, all iterations take the same time, and
// one is counted; otherwise two are counted, since the cache contents alternate with the roles of the two arrays.
constexpr int num_warmup = 1;
constexpr std::uint64_t num_warmup_cache_fills = 2, small_page_bytes = 4096;

using ThreeExtents = std::array<std::uint64_t, 3>;

// One rank's box in memory.
struct RankBox {
  ThreeExtents cells, ghosts, extent;
  Address cell_address(Address array, std::uint64_t x, std::uint64_t y, std::uint64_t z) const {
    return array + ((x * extent[1] + y) * extent[2] + z) * element_bytes;
  }
  std::uint64_t array_bytes() const { return extent[0] * extent[1] * extent[2] * element_bytes; }
  // Returns the end of the updated cells, which begin at 1, without ghosts or the boundary of an unsplit dimension.
  std::uint64_t end_of_updated_cells(std::size_t d) const { return extent[d] - 1; }
};

struct RankPartition {
  ThreeExtents parts;
  std::uint64_t num_ranks() const { return parts[0] * parts[1] * parts[2]; }
};

// Parses a split, for example '8x4x1'.
RankPartition parse_rank_partition(const std::string& text) {
  RankPartition partition{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::size_t d = 0; d < 3; ++d) {
    const auto [next, error] = std::from_chars(at, end, partition.parts[d]);
    if (error != std::errc{} || partition.parts[d] == 0 || (d < 2 ? next == end || *next != 'x' : next != end))
      throw std::invalid_argument("'" + text + "' is no split of three dimensions, such as 8x4x1");
    at = next + 1;
  }
  return partition;
}

RankBox make_rank_box(const RankPartition& partition, std::uint64_t cells, bool ghosts_everywhere) {
  RankBox box{};
  for (std::size_t d = 0; d < 3; ++d) {
    if (cells % partition.parts[d] != 0 || cells / partition.parts[d] < 2)
      throw std::invalid_argument("a split of " + std::to_string(cells) + " cells into equal parts of at least two");
    box.cells[d] = cells / partition.parts[d];
    box.ghosts[d] = ghosts_everywhere || partition.parts[d] > 1 ? 1 : 0;
    box.extent[d] = box.cells[d] + 2 * box.ghosts[d];
  }
  return box;
}

// Returns the plane of cells at `index` of dimension `d`, as a message buffer.
Buffer face_buffer(const RankBox& box, Address array, std::size_t d, std::uint64_t index) {
  const std::uint64_t row = box.extent[2] * element_bytes, piece = box.cells[2] * element_bytes;
  const auto [gx, gy, gz] = box.ghosts;
  if (d == 0) return Buffer(box.cell_address(array, index, gy, gz), box.cells[1], piece, row);
  if (d == 1) return Buffer(box.cell_address(array, gx, index, gz), box.cells[0], piece, box.extent[1] * row);
  return Buffer(box.cell_address(array, gx, 0, index), box.cells[0] * box.extent[1], element_bytes, row);
}

// Returns the rank of the neighbor in a direction of dimension `d`; -1 if there is none.
int neighbor_rank(const RankPartition& partition, int rank, std::size_t d, int direction) {
  const std::uint64_t rank_stride = d == 0 ? partition.parts[1] * partition.parts[2] : d == 1 ? partition.parts[2] : 1;
  const auto place =
      static_cast<std::int64_t>(static_cast<std::uint64_t>(rank) / rank_stride % partition.parts[d]) + direction;
  if (place < 0 || place >= static_cast<std::int64_t>(partition.parts[d])) return -1;
  return rank + direction * static_cast<int>(rank_stride);
}

Task<> update_row(Rank& rank, const RankBox& box, Address from, Address into, std::uint64_t x, std::uint64_t y) {
  for (std::uint64_t z = 1; z < box.end_of_updated_cells(2); z += elements_per_piece) {
    const std::uint64_t count = std::min(elements_per_piece, box.end_of_updated_cells(2) - z);
    for (const Address operand :
         {box.cell_address(from, x, y, z), box.cell_address(from, x, y, z - 1), box.cell_address(from, x, y, z + 1),
          box.cell_address(from, x, y - 1, z), box.cell_address(from, x, y + 1, z), box.cell_address(from, x - 1, y, z),
          box.cell_address(from, x + 1, y, z)})
      co_await rank.sweep(Access::load, operand, count, element_bytes, element_bytes);
    co_await rank.sweep(Access::store, box.cell_address(into, x, y, z), count, element_bytes, element_bytes);
  }
}

Task<> exchange_faces(Rank& rank, const RankPartition& partition, const RankBox& box, Address array) {
  std::vector<Request> requests;
  for (const bool sends : {false, true})
    for (std::size_t d = 0; d < 3; ++d)
      for (const int direction : {-1, 1}) {
        const int other = neighbor_rank(partition, rank.rank(), d, direction);
        if (other < 0) continue;
        const std::uint64_t inner = direction < 0 ? 1 : box.cells[d], ghost = direction < 0 ? 0 : box.cells[d] + 1;
        // The tag encodes the direction of the message.
        const int message_tag = tag + static_cast<int>(2 * d) + ((direction > 0) == sends ? 1 : 0);
        requests.push_back(sends ? rank.send(other, face_buffer(box, array, d, inner), message_tag)
                                 : rank.receive(other, face_buffer(box, array, d, ghost), message_tag));
      }
  co_await rank.wait_all(requests);
}

// The number of rows in a sweep, the number of last rows that warm up the caches, and the number of counted iterations.
struct SweepPlan {
  std::uint64_t rows_of_x, rows, num_warmup_rows;
  int num_counted;
  SweepPlan(const RankBox& box, std::uint64_t cache_bytes)
      : rows_of_x(box.end_of_updated_cells(1) - 1), rows((box.end_of_updated_cells(0) - 1) * rows_of_x) {
    num_warmup_rows = std::min(rows, num_warmup_cache_fills * cache_bytes / (box.extent[2] * element_bytes) + 1);
    num_counted = num_warmup_rows < rows ? 1 : 2;
  }
};

// The program of a rank. Makes two marks per iteration: the sweep and the exchange.
Task<> run_rank(Rank& rank, RankPartition partition, RankBox box, SweepPlan sweeps) {
  Address from = rank.allocate(box.array_bytes()), into = rank.allocate(box.array_bytes());
  if (sweeps.num_warmup_rows < sweeps.rows)
    for (const Address array : {from, into})
      co_await rank.sweep(Access::load, array, box.array_bytes() / small_page_bytes, small_page_bytes, element_bytes);
  for (int i = 0; i < num_warmup + sweeps.num_counted; ++i) {
    if (i == num_warmup) co_await rank.barrier();
    rank.start_mark();
    for (std::uint64_t row = i < num_warmup ? sweeps.rows - sweeps.num_warmup_rows : 0; row < sweeps.rows; ++row)
      co_await update_row(rank, box, from, into, 1 + row / sweeps.rows_of_x, 1 + row % sweeps.rows_of_x);
    rank.stop_mark();
    rank.start_mark();
    co_await exchange_faces(rank, partition, box, into);
    rank.stop_mark();
    std::swap(from, into);
  }
}

// Returns the number of ranks per node: the largest number that is at most the number of cores and divides the number
// of ranks; 0 if the machine has too few nodes.
int ranks_per_node(const Machine& machine, std::uint64_t ranks) {
  auto node_ranks = std::min(static_cast<std::uint64_t>(machine.cores), ranks);
  while (ranks % node_ranks != 0) --node_ranks;
  const bool fits = ranks / node_ranks <= static_cast<std::uint64_t>(std::max(1, machine.max_nodes));
  return fits ? static_cast<int>(node_ranks) : 0;
}

std::vector<Result> simulate_decomposition(const SimulationJob& requested) {
  Machine machine = requested.machine;
  const SimulationJob job{machine, requested.place, requested.parameters, requested.settings,
                          requested.progress_callback};
  const std::string mode = word_parameter(job.parameters, "mode");
  if (mode != "standard") machine.messaging.network = mode;
  const RankPartition partition = parse_rank_partition(word_parameter(job.parameters, "split"));
  const std::string ghosts =
      has_parameter(job.parameters, "ghosts") ? word_parameter(job.parameters, "ghosts") : "split";
  if (ghosts != "split" && ghosts != "all")
    throw std::invalid_argument("'" + ghosts + "': ghost cells are in dimensions that are 'split', or in 'all'");
  const RankBox box =
      make_rank_box(partition, static_cast<std::uint64_t>(number_parameter(job.parameters, "cells")), ghosts == "all");
  ClusterOptions options = job.options();
  options.ranks_per_node = ranks_per_node(machine, partition.num_ranks());
  if (options.ranks_per_node == 0) throw std::invalid_argument("decomposition: the machine has too few nodes");
  options.nodes = static_cast<int>(partition.num_ranks()) / options.ranks_per_node;
  Cluster cluster(machine, options);
  const SweepPlan sweeps(box, static_cast<std::uint64_t>(llc_bytes(machine)));
  const Outcome outcome = cluster.run([&](Rank& rank) { return run_rank(rank, partition, box, sweeps); });
  const ConfigClock zero = outcome.ranks.front().finish_time - outcome.ranks.front().finish_time;
  ConfigClock iteration = zero, exchange = zero;
  for (const auto& rank : outcome.ranks) {
    iteration = later(iteration, elapsed_time(rank.marks[2 * num_warmup], rank.marks.back()));
    ConfigClock rank_exchange = zero;
    for (std::size_t i = 2 * num_warmup + 1; i < rank.marks.size(); i += 2)
      rank_exchange += elapsed_time(rank.marks[i]);
    exchange = later(exchange, rank_exchange);
  }
  Results results(job.settings.memory_slowdown.size());
  results.add_time("iteration", "", iteration, sweeps.num_counted);
  results.add_time("exchange", "", exchange, sweeps.num_counted);
  return results.entries;
}

std::vector<Parameters> decomposition_cases(const Machine&, const PairPlacement&, const CaseSelection& choice) {
  std::vector<Parameters> list;
  const std::int64_t cells = choice.sizes.tier == "quick" ? 32 : 64;
  for (const char* split : {"8x1x1", "1x1x8", "4x2x1", "2x2x2"})
    list.push_back({{"cells", cells}, {"split", std::string(split)}, {"mode", std::string("standard")}});
  return list;
}

std::string unsupported_reason(const Machine& machine, const PairPlacement&) {
  return ranks_per_node(machine, 8) > 0 ? "" : "eight ranks need more nodes than the machine has";
}

const ScenarioInfo info{
    "decomposition",
    "A finite-difference application on a cube of cells, split over ranks in one, two or three dimensions",
    Ranks::all,
    {{"cells", "of the cube, in each dimension"},
     {"split", "ranks in each dimension, x first: 8x4x1"},
     {"mode", "standard, synchronous or buffered send"},
     {"ghosts", "cells beside a rank's own: in dimensions that are split, or in all; if absent, split"}},
    {{"iteration", "ns", Combine::slowest, "a sweep and an exchange, of the slowest rank"},
     {"exchange", "ns", Combine::slowest, "of the rank that takes longest, the wait for others included"}},
};

}  // namespace

extern const ScenarioSpec decomposition_scenario;
const ScenarioSpec decomposition_scenario{.info = info,
                                          .unsupported_reason = unsupported_reason,
                                          .cases = decomposition_cases,
                                          .run = simulate_decomposition,
                                          .num_policies = max_variants};

}  // namespace nearfield::sim

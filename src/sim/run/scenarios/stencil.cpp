// scenario/stencil.hpp on a simulated machine. There are three loads and a store per element; arithmetic takes no time.
// The paper does not give the number of rows; it is the number of columns, but at most `max_rows`.
#include "scenario/stencil.hpp"

#include <algorithm>
#include <stdexcept>

#include "machine/machine.hpp"
#include "sim/run/scenarios/pair.hpp"

namespace nearfield::sim {
namespace {

constexpr int tag = 9;
constexpr std::uint64_t element_bytes = 8;
constexpr std::uint64_t elements_per_piece = 64;  // elements of a row that are accessed operand by operand
constexpr std::int64_t max_rows = 32, min_rows = 3, min_columns = 3;
constexpr int num_warmup = 20, num_counted = 4;  // iterations: warm-up of the MPI's buffers, and measured ones

struct StencilCase {
  std::uint64_t columns, rows;
  StencilOrder order;
  std::uint64_t row_bytes() const { return columns * element_bytes; }
};

struct StencilArrays {
  Address old_array, new_array;
};

// Computes row `i` of the new array from rows `i` and `i + 1` of the old array.
Task<> update_row(Rank& rank, StencilArrays arrays, StencilCase c, std::uint64_t i, bool is_backward) {
  const std::uint64_t pieces = (c.columns + elements_per_piece - 1) / elements_per_piece;
  const std::int64_t step =
      is_backward ? -static_cast<std::int64_t>(element_bytes) : static_cast<std::int64_t>(element_bytes);
  for (std::uint64_t p = 0; p < pieces; ++p) {
    const std::uint64_t begin = (is_backward ? pieces - 1 - p : p) * elements_per_piece;
    const std::uint64_t count = std::min(elements_per_piece, c.columns - begin);
    const std::uint64_t at = i * c.row_bytes() + (is_backward ? begin + count - 1 : begin) * element_bytes;
    for (const Address operand : {arrays.old_array + at, arrays.old_array + at + c.row_bytes(), arrays.old_array + at})
      co_await rank.sweep(Access::load, operand, count, step, element_bytes);
    co_await rank.sweep(Access::store, arrays.new_array + at, count, step, element_bytes);
  }
}

Task<> exchange_rows(const PairSide& side, StencilArrays arrays, StencilCase c) {
  const Buffer first(arrays.old_array, c.row_bytes()),
      last(arrays.old_array + (c.rows - 1) * c.row_bytes(), c.row_bytes());
  co_await side.rank.sendrecv(side.peer, first, tag, side.peer, last, tag);
}

Task<> update_rows(Rank& rank, StencilArrays arrays, StencilCase c, StencilRows rows) {
  for (std::uint64_t i = 0; i < rows.num_rows; ++i)
    co_await update_row(rank, arrays, c, rows.row_at(i), rows.is_backward);
}

Task<> run_iteration(const PairSide& side, StencilArrays arrays, StencilCase c) {
  co_await update_rows(side.rank, arrays, c, c.order.rows_before_exchange);
  co_await exchange_rows(side, arrays, c);
  co_await update_rows(side.rank, arrays, c, c.order.rows_after_exchange);
}

// The program of one rank. Makes one mark around the measured iterations.
Task<> run_side(const PairSide& side, StencilCase c) {
  const std::uint64_t bytes = c.rows * c.row_bytes();
  StencilArrays arrays{side.rank.allocate(bytes), side.rank.allocate(bytes)};
  for (int i = 0; i < num_warmup + num_counted; ++i) {
    if (i == num_warmup) co_await side.rank.barrier();
    if (i == num_warmup) side.rank.start_mark();
    co_await run_iteration(side, arrays, c);
    std::swap(arrays.old_array, arrays.new_array);
  }
  side.rank.stop_mark();
}

std::vector<Result> simulate_stencil(const SimulationJob& job) {
  const std::int64_t columns =
      number_parameter(job.parameters, "size_bytes") / static_cast<std::int64_t>(element_bytes);
  const std::string variant = word_parameter(job.parameters, "variant");
  if (columns < min_columns) throw std::invalid_argument("stencil: rows of three doubles at least");
  const std::int64_t rows =
      has_parameter(job.parameters, "rows") ? number_parameter(job.parameters, "rows") : std::min(columns, max_rows);
  if (rows < min_rows) throw std::invalid_argument("stencil: three rows at least");
  if (variant != "listing-1" && variant != "opt1" && variant != "opt2")
    throw std::invalid_argument("'" + variant + "' is no variant of the stencil");
  const StencilCase c{static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows),
                      stencil_order(variant, static_cast<std::size_t>(rows))};
  const PairMarks marks = run_pair(job, 1, [&](const PairSide& side) { return run_side(side, c); });
  Results results(job.settings.memory_slowdown.size());
  results.add_time("iteration", "", later(elapsed_time(marks.sender.back()), elapsed_time(marks.receiver.back())),
                   num_counted);
  add_counters(results, job.machine, "sender", marks.sender.back().counters);
  add_counters(results, job.machine, "receiver", marks.receiver.back().counters);
  return results.entries;
}

std::vector<Parameters> stencil_cases(const Machine& machine, const PairPlacement&, const CaseSelection& choice) {
  std::vector<Parameters> list;
  const std::int64_t largest = choice.sizes.tier == "quick" ? 128 << 10 : 1 << 20;
  for (const auto size : size_ladder(choice.sizes, 64, std::min(llc_bytes(machine), largest)))
    for (const char* variant : stencil_variants)
      if (size >= min_columns * std::int64_t{element_bytes})
        list.push_back({{"size_bytes", size}, {"variant", variant}});
  return list;
}

}  // namespace

extern const ScenarioSpec stencil_scenario;
const ScenarioSpec stencil_scenario{stencil_info, unsupported_placement, stencil_cases, simulate_stencil};

}  // namespace nearfield::sim

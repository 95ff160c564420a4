// Implements scenario/stencil.hpp under MPI. The same function, with an aligned loop (CMakeLists.txt), updates rows in
// both directions, because the speed of identical loops depends on their code alignment. The paper does not give the
// number of rows; here it equals the number of columns, but is at most `max_rows`. The last column has no right
// neighbour and keeps its value.
#include "scenario/stencil.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "probe/buffer.hpp"
#include "probe/context.hpp"
#include "probe/scenario.hpp"

namespace nearfield::probe {
namespace {

constexpr int stencil_tag = 9;
constexpr std::size_t max_rows = 32, min_columns = 3;

// Updates one row. The step of the loop (1 or -1) is a run-time value, so that both directions execute the same
// instructions.
[[gnu::noinline]] void update_row(double* result, const double* row, const double* next_row, std::size_t num_columns,
                                  bool is_backward) {
  const auto last = static_cast<std::ptrdiff_t>(num_columns) - 1, step = std::ptrdiff_t{is_backward ? -1 : 1};
  if (is_backward) result[last] = row[last];
  auto j = is_backward ? last - 1 : std::ptrdiff_t{0};
  for (std::ptrdiff_t remaining = last; remaining > 0; --remaining, j += step)
    result[j] = row[j] + (next_row[j] + row[j + 1]) / 4;
  if (!is_backward) result[last] = row[last];
}

class StencilScenario final : public Scenario {
 public:
  explicit StencilScenario(Context& ctx) : Scenario(ctx) {
    const std::int64_t largest = ctx.plan.tier == "quick" ? 128 << 10 : 1 << 20;
    for (auto size : size_ladder(ctx.size_choice(), 64, std::min(ctx.plan.llc_bytes(), largest))) {
      size = std::max<std::int64_t>(size / 8, min_columns) * 8;
      for (const char* variant : stencil_variants) cases_.push_back({{"size_bytes", size}, {"variant", variant}});
      for (const char* variant : stencil_controls) cases_.push_back({{"size_bytes", size}, {"variant", variant}});
    }
    source_ = Buffer(max_message_bytes() * max_rows);
    target_ = Buffer(max_message_bytes() * max_rows);
  }

  void select_case(std::size_t index) override {
    num_columns_ = message_bytes_of(index) / sizeof(double);
    num_rows_ = std::min(num_columns_, max_rows);
    variant_ = word_parameter(cases_[index], "variant");
    has_no_exchange_ = variant_.ends_with(no_exchange_suffix);
    if (has_no_exchange_) variant_.resize(variant_.size() - no_exchange_suffix.size());
  }

  void prepare_repetition() override { std::swap(source_, target_); }

  void run_timed(std::span<double> values) override {
    const Ticks start = now();
    const StencilOrder order = stencil_order(variant_, num_rows_);
    update_rows(order.rows_before_exchange);
    if (!has_no_exchange_) exchange_rows();
    update_rows(order.rows_after_exchange);
    values[0] = static_cast<double>(now() - start);
  }

  void fill_buffers(unsigned seed) override {
    for (std::size_t i = 0; i < num_rows_; ++i)
      for (std::size_t j = 0; j < num_columns_; ++j)
        row_address(source_, i)[j] = i + 1 < num_rows_ ? initial_value(seed, ctx_.rank, i, j) : -1;
    std::fill_n(row_address(target_, 0), num_rows_ * num_columns_, -1.0);
  }

  // All variants must give the same result: the formula applied to the initial values and to the received row. Without
  // an exchange, the row that would be received keeps its initial values.
  std::string check_received_data(unsigned seed) override {
    const auto initial_or_received = [&](std::size_t i, std::size_t j) -> double {
      if (i + 1 < num_rows_) return initial_value(seed, ctx_.rank, i, j);
      return has_no_exchange_ ? -1 : initial_value(seed, ctx_.peer_rank(), 0, j);
    };
    for (std::size_t i = 0; i + 1 < num_rows_; ++i)
      for (std::size_t j = 0; j + 1 < num_columns_; ++j)
        if (row_address(target_, i)[j] !=
            initial_or_received(i, j) + (initial_or_received(i + 1, j) + initial_or_received(i, j + 1)) / 4)
          return "element " + std::to_string(i) + ", " + std::to_string(j) + " is wrong";
    for (std::size_t j = 0; j < num_columns_; ++j)
      if (row_address(source_, num_rows_ - 1)[j] != initial_or_received(num_rows_ - 1, j))
        return "the row that arrived is wrong";
    return "";
  }

  std::span<std::byte> received_data() override {
    return {reinterpret_cast<std::byte*>(row_address(source_, num_rows_ - 1)), num_columns_ * sizeof(double)};
  }

 private:
  static double initial_value(unsigned seed, int rank, std::size_t i, std::size_t j) {
    return static_cast<double>(seed + 7 * static_cast<unsigned>(rank) + 16 * i + j % 1024);
  }

  double* row_address(const Buffer& array, std::size_t i) const {
    return reinterpret_cast<double*>(array.data()) + i * num_columns_;
  }

  void update_rows(const StencilRows& rows) {
    for (std::size_t i = 0; i < rows.num_rows; ++i) {
      const double* row = row_address(source_, rows.row_at(i));
      update_row(row_address(target_, rows.row_at(i)), row, row + num_columns_, num_columns_, rows.is_backward);
    }
  }

  void exchange_rows() {
    const int count = static_cast<int>(num_columns_), peer = ctx_.peer_rank();
    MPI_Sendrecv(row_address(source_, 0), count, MPI_DOUBLE, peer, stencil_tag, row_address(source_, num_rows_ - 1),
                 count, MPI_DOUBLE, peer, stencil_tag, ctx_.timed_comm, MPI_STATUS_IGNORE);
  }

  Buffer source_, target_;
  std::size_t num_columns_ = 0, num_rows_ = 0;
  std::string variant_;
  bool has_no_exchange_ = false;
};

}  // namespace

extern const Spec stencil_spec;
const Spec stencil_spec{stencil_info, 0.0, make_implementation<Scenario, StencilScenario>};

}  // namespace nearfield::probe

// Implements scenario/stencil.hpp under MPI. One function with an aligned loop (CMakeLists.txt) updates rows forward
// and backward, because the speed of identical loops depends on where the compiler places them. The paper does not give
// the number of rows: here it equals the number of columns, at most `max_rows`. The last column has no right neighbour
// and keeps its value.
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

// Updates one row. The step of the loop (1 or -1) is known at run time only, so that both directions execute the same
// instructions.
[[gnu::noinline]] void update_row(double* result, const double* own, const double* below, std::size_t columns,
                                  bool backward) {
  const auto last = static_cast<std::ptrdiff_t>(columns) - 1, step = std::ptrdiff_t{backward ? -1 : 1};
  if (backward) result[last] = own[last];
  auto j = backward ? last - 1 : std::ptrdiff_t{0};
  for (std::ptrdiff_t left = last; left > 0; --left, j += step) result[j] = own[j] + (below[j] + own[j + 1]) / 4;
  if (!backward) result[last] = own[last];
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
    from_ = Buffer(max_bytes() * max_rows);
    into_ = Buffer(max_bytes() * max_rows);
  }

  void select_case(std::size_t index) override {
    columns_ = bytes_of(index) / sizeof(double);
    rows_ = std::min(columns_, max_rows);
    variant_ = word_parameter(cases_[index], "variant");
    is_alone_ = variant_.ends_with(alone);
    if (is_alone_) variant_.resize(variant_.size() - alone.size());
  }

  void prepare_repetition() override { std::swap(from_, into_); }

  void run_timed(std::span<double> values) override {
    const Ticks start = now();
    const StencilOrder order = stencil_order(variant_, rows_);
    update_rows(order.before);
    if (!is_alone_) exchange_rows();
    update_rows(order.after);
    values[0] = static_cast<double>(now() - start);
  }

  void fill_buffers(unsigned seed) override {
    for (std::size_t i = 0; i < rows_; ++i)
      for (std::size_t j = 0; j < columns_; ++j)
        row_address(from_, i)[j] = i + 1 < rows_ ? initial_value(seed, ctx_.rank, i, j) : -1;
    std::fill_n(row_address(into_, 0), rows_ * columns_, -1.0);
  }

  // All variants must give the same result: the formula applied to the initial values and to the received row. Without
  // an exchange, the row that would be received keeps its initial values.
  std::string check_received_data(unsigned seed) override {
    const auto old = [&](std::size_t i, std::size_t j) -> double {
      if (i + 1 < rows_) return initial_value(seed, ctx_.rank, i, j);
      return is_alone_ ? -1 : initial_value(seed, ctx_.peer_rank(), 0, j);
    };
    for (std::size_t i = 0; i + 1 < rows_; ++i)
      for (std::size_t j = 0; j + 1 < columns_; ++j)
        if (row_address(into_, i)[j] != old(i, j) + (old(i + 1, j) + old(i, j + 1)) / 4)
          return "element " + std::to_string(i) + ", " + std::to_string(j) + " is wrong";
    for (std::size_t j = 0; j < columns_; ++j)
      if (row_address(from_, rows_ - 1)[j] != old(rows_ - 1, j)) return "the row that arrived is wrong";
    return "";
  }

  std::span<std::byte> received_data() override {
    return {reinterpret_cast<std::byte*>(row_address(from_, rows_ - 1)), columns_ * sizeof(double)};
  }

 private:
  static double initial_value(unsigned seed, int rank, std::size_t i, std::size_t j) {
    return static_cast<double>(seed + 7 * static_cast<unsigned>(rank) + 16 * i + j % 1024);
  }

  double* row_address(const Buffer& array, std::size_t i) const {
    return reinterpret_cast<double*>(array.data()) + i * columns_;
  }

  void update_rows(const StencilRows& rows) {
    for (std::size_t i = 0; i < rows.count; ++i) {
      const double* own = row_address(from_, rows.at(i));
      update_row(row_address(into_, rows.at(i)), own, own + columns_, columns_, rows.backward);
    }
  }

  void exchange_rows() {
    const int count = static_cast<int>(columns_), peer = ctx_.peer_rank();
    MPI_Sendrecv(row_address(from_, 0), count, MPI_DOUBLE, peer, stencil_tag, row_address(from_, rows_ - 1), count,
                 MPI_DOUBLE, peer, stencil_tag, ctx_.timed, MPI_STATUS_IGNORE);
  }

  Buffer from_, into_;
  std::size_t columns_ = 0, rows_ = 0;
  std::string variant_;
  bool is_alone_ = false;
};

}  // namespace

extern const Spec stencil_spec;
const Spec stencil_spec{stencil_info, 0.0, make_variant<Scenario, StencilScenario>};

}  // namespace nearfield::probe

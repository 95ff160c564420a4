// Measures what timing through the engine adds to an operation of known length. Each repetition times a chain of
// dependent multiplications three ways: `engine` in run_timed(), as every scenario does, after prepare_repetition(),
// the synchronised start and the engine's virtual call; `bare` by the shortest loop there is around two clock reads;
// `alone` without clock reads inside, many operations between two reads. Built into the engine by engine_overhead.py
// only. Leaves out: what repetitions do to one another through caches, which is for pingpong's `reused` to show.
#include <algorithm>
#include <array>
#include <cstdint>

#include "probe/context.hpp"
#include "probe/scenario.hpp"

namespace nearfield::probe {
namespace {

// One copy of the operation per way of timing it, so that none finds code or branch history warmed by another.
enum class Way { engine, bare, alone };

template <Way way>
[[gnu::noinline]] std::uint64_t multiply(std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) {
    value *= 0x9e3779b97f4a7c15ull;
    asm volatile("" : "+r"(value));
  }
  return value;
}

class OverheadScenario final : public Scenario {
 public:
  explicit OverheadScenario(Context& ctx) : Scenario(ctx) {
    for (const std::int64_t length : lengths_ns) cases_.push_back({{"operation_ns", length}});
  }

  void select_case(std::size_t index) override {
    constexpr int many = 100000;
    double shortest = 1e300;
    for (int i = 0; i < 5; ++i) {
      const Ticks start = now();
      value_ = multiply<Way::alone>(value_, many);
      shortest = std::min(shortest, static_cast<double>(now() - start));
    }
    count_ = static_cast<int>(static_cast<double>(lengths_ns[index]) * ctx_.ticks_per_ns / (shortest / many));
  }

  void prepare_repetition() override {
    alone_ = time_alone();
    bare_ = time_bare();
  }

  void run_timed(std::span<double> values) override {
    const Ticks start = now();
    value_ = multiply<Way::engine>(value_, count_);
    const Ticks end = now();
    values[0] = static_cast<double>(end - start);
    values[1] = bare_;
    values[2] = alone_;
    values[3] = clock_;
  }

  void fill_buffers(unsigned seed) override { value_ = 2 * std::uint64_t{seed} + 1; }
  std::string check_received_data(unsigned) override { return value_ % 2 == 1 ? "" : "an odd number became even"; }
  std::span<std::byte> received_data() override { return {}; }

 private:
  static constexpr std::array<std::int64_t, 4> lengths_ns{0, 100, 200, 400};
  static constexpr int batch = 16;

  // Also times clock reads with nothing between them, in the same way.
  double time_bare() {
    std::array<double, batch> reads, times;
    for (auto& read : reads) {
      const Ticks start = now();
      read = static_cast<double>(now() - start);
    }
    for (auto& time : times) {
      const Ticks start = now();
      value_ = multiply<Way::bare>(value_, count_);
      time = static_cast<double>(now() - start);
    }
    clock_ = middle(reads);
    return middle(times);
  }

  static double middle(std::array<double, batch>& values) {
    std::sort(values.begin(), values.end());
    return (values[batch / 2 - 1] + values[batch / 2]) / 2;
  }

  double time_alone() {
    const Ticks start = now();
    for (int i = 0; i < batch; ++i) value_ = multiply<Way::alone>(value_, count_);
    return static_cast<double>(now() - start) / batch;
  }

  std::uint64_t value_ = 1;
  int count_ = 0;
  double bare_ = 0, alone_ = 0, clock_ = 0;
};

const ScenarioInfo overhead_info{
    "overhead",
    "what timing through the engine adds to an operation of known length",
    Ranks::pair,
    {{"operation_ns", "how long the operation takes, about"}},
    {{"engine", "ns", Combine::sides, "timed in run_timed()"},
     {"bare", "ns", Combine::sides, "timed by a bare loop just before, median of 16"},
     {"alone", "ns", Combine::sides, "mean of 16 operations between two clock reads, the reads' own share included"},
     {"clock", "ns", Combine::sides, "two clock reads with nothing between them, median of 16"}},
};

}  // namespace

extern const Spec overhead_spec;
const Spec overhead_spec{overhead_info, 1.0, make_implementation<Scenario, OverheadScenario>};

}  // namespace nearfield::probe

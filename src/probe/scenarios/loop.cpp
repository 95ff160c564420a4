// Paper S1 (papers/S1/README.md), section IV-A, algorithm 4: a loop of stores through a pointer to memory of
// MPI_Win_allocate_shared. Variants: a global pointer, which the stores may alias (plain), a local copy of the pointer
// (alias), a restrict pointer (restrict), and a global pointer to heap memory (private). Compiled with the same options
// as the other scenarios. The five-point stencil of the paper is not included, since it showed a smaller difference.
#include <cstdlib>
#include <memory>

#include "probe/buffer.hpp"
#include "probe/context.hpp"
#include "probe/scenario.hpp"
#include "probe/scenarios/window.hpp"

namespace nearfield::probe {

// Has external linkage, so that the compiler cannot see all uses of the pointer.
double* loop_memory = nullptr;

namespace {

[[gnu::noinline]] void store_by_global_pointer(int n) {
  for (int i = 0; i < n; ++i) loop_memory[i] = static_cast<double>(i);
}

[[gnu::noinline]] void store_by_local_pointer(int n) {
  double* memory = loop_memory;
  for (int i = 0; i < n; ++i) memory[i] = static_cast<double>(i);
}

[[gnu::noinline]] void store_by_restrict_pointer(int n, double* __restrict memory) {
  for (int i = 0; i < n; ++i) memory[i] = static_cast<double>(i);
}

constexpr const char* loop_variants[] = {"plain", "alias", "restrict", "private"};

class LoopScenario final : public Scenario {
 public:
  explicit LoopScenario(Context& ctx) : Scenario(ctx) {
    for (const auto size : size_ladder(ctx.size_choice(), 512, ctx.plan.llc_bytes()))
      for (const char* variant : loop_variants) cases_.push_back({{"size_bytes", size / 8 * 8}, {"variant", variant}});
    window_ = std::make_unique<Window>(ctx, max_message_bytes());
    private_ = Buffer(max_message_bytes());
  }

  void select_case(std::size_t index) override {
    variant_ = word_parameter(cases_[index], "variant");
    memory_ = (variant_ == "private" ? private_.first(private_.size()) : window_->part_of_rank(ctx_.rank))
                  .first(message_bytes_of(index));
  }

  void run_timed(std::span<double> values) override {
    const int n = static_cast<int>(memory_.size() / sizeof(double));
    loop_memory = reinterpret_cast<double*>(memory_.data());
    const Ticks start = now();
    if (variant_ == "alias")
      store_by_local_pointer(n);
    else if (variant_ == "restrict")
      store_by_restrict_pointer(n, loop_memory);
    else
      store_by_global_pointer(n);
    values[0] = static_cast<double>(now() - start);
  }

  void fill_buffers(unsigned seed) override { fill_pattern(memory_, seed); }

  std::string check_received_data(unsigned) override {
    const auto* elements = reinterpret_cast<const double*>(memory_.data());
    for (std::size_t i = 0; i < memory_.size() / sizeof(double); ++i)
      if (elements[i] != static_cast<double>(i)) return "element " + std::to_string(i) + " is wrong";
    return "";
  }

  std::span<std::byte> received_data() override { return memory_; }

 private:
  std::unique_ptr<Window> window_;
  Buffer private_;
  std::span<std::byte> memory_;
  std::string variant_;
};

const ScenarioInfo loop_info{
    "loop",
    "A loop that stores into a shared window, and the compiler's knowledge of its pointer",
    Ranks::pair,
    {{"size_bytes", "of the written part"},
     {"variant", "plain, alias or restrict; private: malloc instead of the window"}},
    {{"time", "ns", Combine::sides, "of the loop"}},
};

}  // namespace

extern const Spec loop_spec;
const Spec loop_spec{loop_info, 0.0, make_implementation<Scenario, LoopScenario>};

}  // namespace nearfield::probe

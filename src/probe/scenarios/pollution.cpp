// Implements scenario/pollution.hpp under MPI.
#include "scenario/pollution.hpp"

#include "base/sum_words.hpp"
#include "probe/buffer.hpp"
#include "probe/cache_state.hpp"
#include "probe/context.hpp"
#include "probe/scenario.hpp"

namespace nearfield::probe {
namespace {

constexpr int pollution_tag = 2;

class PollutionScenario final : public Scenario {
 public:
  explicit PollutionScenario(Context& ctx) : Scenario(ctx) {
    for (const auto size : pollution_sizes(ctx.size_choice()))
      for (const char* state : pollution_states) cases_.push_back({{"size_bytes", size}, {"state", state}});
    buffer_ = Buffer(max_bytes());
  }

  void select_case(std::size_t index) override {
    memory_ = buffer_.first(bytes_of(index));
    const std::size_t which = index % std::size(pollution_states);
    preloaded_ = which % 2 == 1;
    base_ = which >= 2;
  }

  void prepare_repetition() override { put_into_state(prepared_state(), memory_, ctx_.line_bytes()); }

  void run_timed(std::span<double> values) override {
    if (!base_) transfer_message();
    const Ticks start = now();
    sum_ = sum_words(memory_);
    values[0] = static_cast<double>(now() - start);
  }

  void fill_buffers(unsigned seed) override { fill_pattern(memory_, ctx_.is_sender() || base_ ? seed : seed + 1); }

  std::string check_received_data(unsigned seed) override {
    const std::string wrong = pattern_problem(memory_, seed);
    if (!wrong.empty()) return wrong;
    return sum_ == sum_words(memory_) ? "" : "the traversal read something else than what arrived";
  }

  std::span<std::byte> received_data() override { return memory_; }
  std::vector<StatedBuffer> stated_buffers() override { return {{memory_, prepared_state()}}; }

 private:
  std::string prepared_state() const { return preloaded_ ? "exclusive" : "invalid"; }

  void transfer_message() {
    const int count = static_cast<int>(memory_.size());
    if (ctx_.is_sender())
      MPI_Send(memory_.data(), count, MPI_BYTE, 1, pollution_tag, ctx_.timed);
    else
      MPI_Recv(memory_.data(), count, MPI_BYTE, 0, pollution_tag, ctx_.timed, MPI_STATUS_IGNORE);
  }

  Buffer buffer_;
  std::span<std::byte> memory_;
  bool preloaded_ = false, base_ = false;
  std::uint64_t sum_ = 0;
};

}  // namespace

extern const Spec pollution_spec;
const Spec pollution_spec{pollution_info, 4.0, make_variant<Scenario, PollutionScenario>};

}  // namespace nearfield::probe

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
    buffer_ = Buffer(max_message_bytes());
  }

  void select_case(std::size_t index) override {
    memory_ = buffer_.first(message_bytes_of(index));
    const std::size_t state_index = index % std::size(pollution_states);
    is_preloaded_ = state_index % 2 == 1;
    has_no_call_ = state_index >= 2;
  }

  void prepare_repetition() override { put_into_state(prepared_state(), memory_, ctx_.cache_line_bytes()); }

  void run_timed(std::span<double> values) override {
    if (!has_no_call_) transfer_message();
    const Ticks start = now();
    sum_ = sum_words(memory_);
    values[0] = static_cast<double>(now() - start);
  }

  void fill_buffers(unsigned seed) override {
    fill_pattern(memory_, ctx_.is_sender() || has_no_call_ ? seed : seed + 1);
  }

  std::string check_received_data(unsigned seed) override {
    const std::string error = find_pattern_error(memory_, seed);
    if (!error.empty()) return error;
    return sum_ == sum_words(memory_) ? "" : "the traversal read something else than what arrived";
  }

  std::span<std::byte> received_data() override { return memory_; }
  std::vector<BufferInCacheState> buffers_in_cache_state() override { return {{memory_, prepared_state()}}; }

 private:
  std::string prepared_state() const { return is_preloaded_ ? "exclusive" : "invalid"; }

  void transfer_message() {
    const int count = static_cast<int>(memory_.size());
    if (ctx_.is_sender())
      MPI_Send(memory_.data(), count, MPI_BYTE, 1, pollution_tag, ctx_.timed_comm);
    else
      MPI_Recv(memory_.data(), count, MPI_BYTE, 0, pollution_tag, ctx_.timed_comm, MPI_STATUS_IGNORE);
  }

  Buffer buffer_;
  std::span<std::byte> memory_;
  bool is_preloaded_ = false, has_no_call_ = false;
  std::uint64_t sum_ = 0;
};

}  // namespace

extern const Spec pollution_spec;
const Spec pollution_spec{pollution_info, 4.0, make_implementation<Scenario, PollutionScenario>};

}  // namespace nearfield::probe

// Implements scenario/one_way.hpp under MPI.
#include "scenario/one_way.hpp"

#include <algorithm>

#include "probe/buffer.hpp"
#include "probe/context.hpp"
#include "probe/scenario.hpp"

namespace nearfield::probe {
namespace {

constexpr int one_way_tag = 3;
// A control for preloaded lines: one load per page of the message has filled the TLB, but the other lines of the
// message are not cached.
constexpr const char* touched_pages_state = "pages";
constexpr std::size_t page_bytes = 4096;

class OneWayScenario final : public Scenario {
 public:
  explicit OneWayScenario(Context& ctx) : Scenario(ctx) {
    cases_ = one_way_cases(ctx.size_choice());
    for (std::size_t i = 0, count = cases_.size(); i < count; ++i)
      if (word_parameter(cases_[i], "state") == "exclusive")
        cases_.push_back({{"size_bytes", number_parameter(cases_[i], "size_bytes")},
                          {"state", touched_pages_state},
                          {"access", word_parameter(cases_[i], "access")}});
    const std::size_t largest = max_message_bytes();
    message_ = Buffer(largest);
    unrelated_memory_ = Buffer(std::max(largest, static_cast<std::size_t>(ctx.plan.llc_bytes())));
  }

  void select_case(std::size_t index) override {
    memory_ = message_.first(message_bytes_of(index));
    case_ = parse_one_way_case(cases_[index]);
  }

  void prepare_repetition() override {
    const std::size_t line = ctx_.cache_line_bytes();
    for (std::size_t i = 0; i < unrelated_bytes(); i += line) rewrite_byte(unrelated_memory_.data()[i]);
    if (case_.line_state == "invalid") return;
    if (case_.line_state == touched_pages_state) {
      for (std::size_t i = 0; i < memory_.size(); i += page_bytes) sum_ += load_byte(memory_[i]);
      return;
    }
    for (std::size_t i = (memory_.size() + line - 1) / line * line; i > 0;) {
      i -= line;
      if (case_.line_state == "modified")
        rewrite_byte(memory_[i]);
      else
        sum_ += load_byte(memory_[i]);
    }
  }

  void run_timed(std::span<double> values) override {
    values[0] = not_measured_here();
    if (case_.has_call) {
      synchronize_ranks();
      const Ticks start = now();
      transfer_message();
      values[0] = static_cast<double>(now() - start);
      MPI_Barrier(ctx_.timed_comm);
    }
    const Ticks start = now();
    for (std::size_t i = 0; i < memory_.size(); i += ctx_.cache_line_bytes()) {
      if (case_.is_write)
        rewrite_byte(memory_[i]);
      else
        sum_ += load_byte(memory_[i]);
    }
    values[1] = static_cast<double>(now() - start);
  }

  void fill_buffers(unsigned seed) override {
    fill_pattern(memory_, ctx_.is_sender() || !case_.has_call ? seed : seed + 1);
  }
  std::string check_received_data(unsigned seed) override { return find_pattern_error(memory_, seed); }
  std::span<std::byte> received_data() override { return memory_; }
  std::vector<BufferInCacheState> buffers_in_cache_state() override {
    if (case_.line_state == touched_pages_state) return {};
    return {{memory_, case_.line_state}};
  }

 private:
  static unsigned load_byte(const std::byte& byte) { return *reinterpret_cast<const volatile unsigned char*>(&byte); }
  // Stores the value that the byte already has, so that the line is modified but the message does not change.
  static void rewrite_byte(std::byte& byte) {
    auto& cell = reinterpret_cast<volatile unsigned char&>(byte);
    cell = cell;
  }

  std::size_t unrelated_bytes() const {
    return std::max(memory_.size(), static_cast<std::size_t>(ctx_.plan.llc_bytes()));
  }

  void synchronize_ranks() {
    const auto send_signal = [&] { MPI_Send(nullptr, 0, MPI_BYTE, ctx_.peer_rank(), one_way_tag, ctx_.timed_comm); };
    const auto receive_signal = [&] {
      MPI_Recv(nullptr, 0, MPI_BYTE, ctx_.peer_rank(), one_way_tag, ctx_.timed_comm, MPI_STATUS_IGNORE);
    };
    if (ctx_.is_sender()) receive_signal();
    send_signal();
    if (!ctx_.is_sender()) receive_signal();
  }

  void transfer_message() {
    const int count = static_cast<int>(memory_.size());
    if (ctx_.is_sender())
      MPI_Send(memory_.data(), count, MPI_BYTE, 1, one_way_tag, ctx_.timed_comm);
    else
      MPI_Recv(memory_.data(), count, MPI_BYTE, 0, one_way_tag, ctx_.timed_comm, MPI_STATUS_IGNORE);
  }

  Buffer message_, unrelated_memory_;
  std::span<std::byte> memory_;
  OneWayCase case_;
  unsigned sum_ = 0;  // makes the loads observable
};

}  // namespace

extern const Spec one_way_spec;
const Spec one_way_spec{one_way_info, 0.0, make_implementation<Scenario, OneWayScenario>};

}  // namespace nearfield::probe

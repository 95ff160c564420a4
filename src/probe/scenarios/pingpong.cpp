// Implements scenario/pingpong.hpp under MPI.
#include "scenario/pingpong.hpp"

#include "probe/scenarios/pair.hpp"

namespace nearfield::probe {
namespace {

constexpr int pingpong_tag = 1;

class PingPongScenario final : public PairScenario {
 public:
  explicit PingPongScenario(Context& ctx) : PairScenario(ctx) {
    for (const auto size : pingpong_sizes(ctx.size_choice(), ctx.protocol_switch_sizes()))
      for (const char* state : pingpong_states) cases_.push_back({{"size_bytes", size}, {"state", state}});
    allocate(max_message_bytes());
  }

  void select_case(std::size_t index) override {
    bytes_ = message_bytes_of(index);
    state_ = word_parameter(cases_[index], "state");
    is_reused_ = state_ == "reused";
    num_round_trips_ = is_reused_ ? pingpong_round_trips(static_cast<std::int64_t>(bytes_)) : 1;
  }

  void prepare_repetition() override {
    if (is_reused_) return;
    put_into_state(state_, receive_.first(bytes_), ctx_.cache_line_bytes());
    put_into_state(state_, send_.first(bytes_), ctx_.cache_line_bytes());
  }

  void run_timed(std::span<double> values) override {
    if (is_reused_) return time_round_trips(values);
    const int count = static_cast<int>(bytes_);
    if (ctx_.is_sender()) {
      const Ticks start = now();
      MPI_Send(send_.data(), count, MPI_BYTE, 1, pingpong_tag, ctx_.timed_comm);
      const Ticks sent = now();
      MPI_Recv(receive_.data(), count, MPI_BYTE, 1, pingpong_tag, ctx_.timed_comm, MPI_STATUS_IGNORE);
      const Ticks end = now();
      store_times(values, sent - start, end - sent);
      values[2] = static_cast<double>(end - start) / 2;
    } else {
      const Ticks start = now();
      MPI_Recv(receive_.data(), count, MPI_BYTE, 0, pingpong_tag, ctx_.timed_comm, MPI_STATUS_IGNORE);
      const Ticks received = now();
      MPI_Send(send_.data(), count, MPI_BYTE, 0, pingpong_tag, ctx_.timed_comm);
      store_times(values, now() - received, received - start);
      values[2] = not_measured_here();
    }
  }

  std::vector<BufferInCacheState> buffers_in_cache_state() override {
    if (is_reused_) return {};
    return {{send_.first(bytes_), state_}, {receive_.first(bytes_), state_}};
  }

 private:
  static void store_times(std::span<double> values, Ticks send, Ticks receive) {
    values[0] = static_cast<double>(send);
    values[1] = static_cast<double>(receive);
  }

  void time_round_trips(std::span<double> values) {
    const int count = static_cast<int>(bytes_);
    values[0] = values[1] = values[2] = not_measured_here();
    const Ticks start = now();
    for (int i = 0; i < num_round_trips_; ++i) {
      if (ctx_.is_sender()) {
        MPI_Send(send_.data(), count, MPI_BYTE, 1, pingpong_tag, ctx_.timed_comm);
        MPI_Recv(receive_.data(), count, MPI_BYTE, 1, pingpong_tag, ctx_.timed_comm, MPI_STATUS_IGNORE);
      } else {
        MPI_Recv(receive_.data(), count, MPI_BYTE, 0, pingpong_tag, ctx_.timed_comm, MPI_STATUS_IGNORE);
        MPI_Send(send_.data(), count, MPI_BYTE, 0, pingpong_tag, ctx_.timed_comm);
      }
    }
    if (ctx_.is_sender()) values[2] = static_cast<double>(now() - start) / (2.0 * num_round_trips_);
  }

  std::string state_;
  bool is_reused_ = false;
  int num_round_trips_ = 1;
};

}  // namespace

extern const Spec pingpong_spec;
const Spec pingpong_spec{pingpong_info, 10.0, make_implementation<Scenario, PingPongScenario>};

}  // namespace nearfield::probe

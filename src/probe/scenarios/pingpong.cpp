// scenario/pingpong.hpp by MPI.
#include "scenario/pingpong.hpp"

#include <algorithm>

#include "probe/buffer.hpp"
#include "probe/cache_state.hpp"
#include "probe/context.hpp"
#include "probe/scenario.hpp"

namespace nearfield::probe {
namespace {

constexpr int pingpong_tag = 1;

class PingPong final : public Scenario {
 public:
  explicit PingPong(Context& ctx) : ctx_(ctx) {
    for (const auto size : pingpong_sizes(ctx.size_choice(), ctx.switch_sizes()))
      for (const char* state : pingpong_states) cases_.push_back({size, state});
    const auto largest =
        std::max_element(cases_.begin(), cases_.end(), [](const Case& a, const Case& b) { return a.size < b.size; });
    send_ = Buffer(static_cast<std::size_t>(largest->size));
    receive_ = Buffer(static_cast<std::size_t>(largest->size));
  }

  std::vector<Parameters> cases() override {
    std::vector<Parameters> list;
    for (const auto& c : cases_) list.push_back({{"size_bytes", c.size}, {"state", c.state}});
    return list;
  }

  void select(std::size_t index) override {
    size_ = cases_[index].size;
    state_ = cases_[index].state;
    reused_ = state_ == "reused";
    round_trips_ = reused_ ? pingpong_round_trips(size_) : 1;
  }

  void prepare() override {
    if (reused_) return;
    put_into(state_, receive_.first(bytes()), ctx_.line_bytes());
    put_into(state_, send_.first(bytes()), ctx_.line_bytes());
  }

  void body(std::span<double> values) override {
    if (reused_) return round_trips(values);
    const int count = static_cast<int>(size_);
    if (ctx_.sender()) {
      const Ticks start = now();
      MPI_Send(send_.data(), count, MPI_BYTE, 1, pingpong_tag, ctx_.timed);
      const Ticks sent = now();
      MPI_Recv(receive_.data(), count, MPI_BYTE, 1, pingpong_tag, ctx_.timed, MPI_STATUS_IGNORE);
      const Ticks end = now();
      write(values, sent - start, end - sent);
      values[2] = static_cast<double>(end - start) / 2;
    } else {
      const Ticks start = now();
      MPI_Recv(receive_.data(), count, MPI_BYTE, 0, pingpong_tag, ctx_.timed, MPI_STATUS_IGNORE);
      const Ticks received = now();
      MPI_Send(send_.data(), count, MPI_BYTE, 0, pingpong_tag, ctx_.timed);
      write(values, now() - received, received - start);
      values[2] = not_here();
    }
  }

  void fill(unsigned seed) override {
    fill_pattern(send_.first(bytes()), seed + static_cast<unsigned>(ctx_.rank));
    fill_pattern(receive_.first(bytes()), seed + 2);
  }

  std::string problem(unsigned seed) override {
    return pattern_problem(receive_.first(bytes()), seed + static_cast<unsigned>(ctx_.peer()));
  }

  std::span<std::byte> arrived() override { return receive_.first(bytes()); }

  std::vector<StatedBuffer> stated() override {
    if (reused_) return {};
    return {{send_.first(bytes()), state_}, {receive_.first(bytes()), state_}};
  }

 private:
  struct Case {
    std::int64_t size;
    std::string state;
  };

  std::size_t bytes() const { return static_cast<std::size_t>(size_); }

  static void write(std::span<double> values, Ticks send, Ticks receive) {
    values[0] = static_cast<double>(send);
    values[1] = static_cast<double>(receive);
  }

  void round_trips(std::span<double> values) {
    const int count = static_cast<int>(size_);
    values[0] = values[1] = values[2] = not_here();
    const Ticks start = now();
    for (int i = 0; i < round_trips_; ++i) {
      if (ctx_.sender()) {
        MPI_Send(send_.data(), count, MPI_BYTE, 1, pingpong_tag, ctx_.timed);
        MPI_Recv(receive_.data(), count, MPI_BYTE, 1, pingpong_tag, ctx_.timed, MPI_STATUS_IGNORE);
      } else {
        MPI_Recv(receive_.data(), count, MPI_BYTE, 0, pingpong_tag, ctx_.timed, MPI_STATUS_IGNORE);
        MPI_Send(send_.data(), count, MPI_BYTE, 0, pingpong_tag, ctx_.timed);
      }
    }
    if (ctx_.sender()) values[2] = static_cast<double>(now() - start) / (2.0 * round_trips_);
  }

  Context& ctx_;
  std::vector<Case> cases_;
  Buffer send_, receive_;
  std::int64_t size_ = 0;
  std::string state_;
  bool reused_ = false;
  int round_trips_ = 1;
};

}  // namespace

extern const Spec pingpong_spec;
const Spec pingpong_spec{
    pingpong_info,
    10.0,
    [](Context& ctx) -> std::unique_ptr<Scenario> { return std::make_unique<PingPong>(ctx); },
};

}  // namespace nearfield::probe

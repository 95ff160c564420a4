// Messages as an application sends them: every send buffer has just been written by its rank, every receive buffer is
// as the last message left it. A request and its answer, many messages one way, many both ways at once: what `tune`
// makes faster. Leaves out: what the sender pays apart (pingpong has it), and messages among more than two ranks.
#include <algorithm>
#include <array>

#include "probe/buffer.hpp"
#include "probe/cache_state.hpp"
#include "probe/context.hpp"
#include "probe/scenario.hpp"
#include "probe/sizes.hpp"

namespace nearfield::probe {
namespace {

constexpr int traffic_tag = 1, ack_tag = 2;
constexpr int most_messages = 32;
constexpr std::int64_t window_bytes = 256 << 10;  // messages of one repetition share about so much memory

class Traffic final : public Scenario {
 public:
  explicit Traffic(Context& ctx) : ctx_(ctx) {
    std::int64_t most = 0;
    for (const auto size : size_ladder(ctx, 1, 4 * ctx.plan.llc_bytes()))
      for (const char* pattern : {"pingpong", "stream", "exchange"}) {
        cases_.push_back({size, pattern});
        most = std::max(most, size * messages_of(cases_.back()));
      }
    send_ = Buffer(static_cast<std::size_t>(most));
    receive_ = Buffer(static_cast<std::size_t>(most));
  }

  std::vector<Parameters> cases() override {
    std::vector<Parameters> list;
    for (const auto& c : cases_) list.push_back({{"size_bytes", c.size}, {"pattern", c.pattern}});
    return list;
  }

  void select(std::size_t index) override {
    size_ = cases_[index].size;
    pattern_ = cases_[index].pattern;
    messages_ = messages_of(cases_[index]);
  }

  void prepare() override { put_into("modified", sent(), ctx_.line_bytes()); }

  void body(std::span<double> values) override {
    const Ticks start = now();
    if (pattern_ == "pingpong")
      pingpong();
    else if (pattern_ == "stream")
      stream();
    else
      exchange();
    values[0] = ctx_.sender() ? static_cast<double>(now() - start) / messages_ : not_here();
    if (ctx_.sender() && pattern_ == "pingpong") values[0] /= 2;
  }

  void fill(unsigned seed) override {
    fill_pattern(sent(), seed + static_cast<unsigned>(ctx_.rank));
    fill_pattern(arrived(), seed + 2);
  }

  std::string problem(unsigned seed) override {
    if (pattern_ == "stream" && ctx_.sender()) return "";
    return pattern_problem(arrived(), seed + static_cast<unsigned>(ctx_.peer()));
  }

  std::span<std::byte> arrived() override { return receive_.first(used()); }

 private:
  struct Case {
    std::int64_t size;
    std::string pattern;
  };

  static int messages_of(const Case& c) {
    return static_cast<int>(std::clamp<std::int64_t>(window_bytes / c.size, 1, most_messages));
  }

  std::size_t used() const { return static_cast<std::size_t>(size_ * messages_); }
  std::span<std::byte> sent() const { return send_.first(used()); }
  std::byte* at(const Buffer& buffer, int message) const { return buffer.data() + message * size_; }
  int count() const { return static_cast<int>(size_); }

  void pingpong() {
    for (int i = 0; i < messages_; ++i) {
      if (ctx_.sender()) MPI_Send(at(send_, i), count(), MPI_BYTE, ctx_.peer(), traffic_tag, ctx_.timed);
      MPI_Recv(at(receive_, i), count(), MPI_BYTE, ctx_.peer(), traffic_tag, ctx_.timed, MPI_STATUS_IGNORE);
      if (!ctx_.sender()) MPI_Send(at(send_, i), count(), MPI_BYTE, ctx_.peer(), traffic_tag, ctx_.timed);
    }
  }

  void post_sends(MPI_Request* requests) {
    for (int i = 0; i < messages_; ++i)
      MPI_Isend(at(send_, i), count(), MPI_BYTE, ctx_.peer(), traffic_tag, ctx_.timed, &requests[i]);
  }

  void post_receives(MPI_Request* requests) {
    for (int i = 0; i < messages_; ++i)
      MPI_Irecv(at(receive_, i), count(), MPI_BYTE, ctx_.peer(), traffic_tag, ctx_.timed, &requests[i]);
  }

  void stream() {
    if (ctx_.sender()) {
      post_sends(requests_.data());
      MPI_Waitall(messages_, requests_.data(), MPI_STATUSES_IGNORE);
      MPI_Recv(nullptr, 0, MPI_BYTE, ctx_.peer(), ack_tag, ctx_.timed, MPI_STATUS_IGNORE);
    } else {
      post_receives(requests_.data());
      MPI_Waitall(messages_, requests_.data(), MPI_STATUSES_IGNORE);
      MPI_Send(nullptr, 0, MPI_BYTE, ctx_.peer(), ack_tag, ctx_.timed);
    }
  }

  void exchange() {
    post_receives(requests_.data());
    post_sends(requests_.data() + messages_);
    MPI_Waitall(2 * messages_, requests_.data(), MPI_STATUSES_IGNORE);
  }

  Context& ctx_;
  std::vector<Case> cases_;
  Buffer send_, receive_;
  std::array<MPI_Request, 2 * most_messages> requests_{};
  std::int64_t size_ = 0;
  std::string pattern_;
  int messages_ = 1;
};

}  // namespace

extern const Spec traffic_spec;
const Spec traffic_spec{
    "traffic",
    "messages as an application sends them: written just before, in one direction, the other, or both",
    Ranks::pair,
    0.0,
    {{"size_bytes", "message size"},
     {"pattern", "pingpong (a message and its answer), stream (a window of messages one way), exchange (both ways)"}},
    {{"per_message", "ns", Combine::root,
      "time of a message: half a round trip, or the window's time by its messages"}},
    [](Context& ctx) -> std::unique_ptr<Scenario> { return std::make_unique<Traffic>(ctx); },
};

}  // namespace nearfield::probe

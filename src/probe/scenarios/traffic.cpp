// Messages as in an application: the sender has just written the send buffer, and the receive buffer is in the state in
// which the previous message left it. The patterns that `tune` accelerates are a ping-pong, a window of messages in one
// direction, a window in both directions at once, and a ping-pong that includes writing and reading the payload. The
// collectives between the two ranks are included because `tune` must not slow them down. Separate send times are in the
// scenario pingpong.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/sum_words.hpp"
#include "probe/scenarios/pair.hpp"
#include "scenario/size_ladder.hpp"

namespace nearfield::probe {
namespace {

constexpr int traffic_tag = 1, ack_tag = 2;
constexpr int max_messages = 32;
constexpr std::int64_t approximate_window_bytes = 256
                                                  << 10;  // approximate total size of the messages of one repetition
constexpr std::int64_t max_collective_bytes = 16 << 20;

class TrafficScenario final : public PairScenario {
 public:
  explicit TrafficScenario(Context& ctx) : PairScenario(ctx) {
    for (const auto size : size_ladder(ctx.size_choice(), 1, 4 * ctx.plan.llc_bytes())) {
      for (const char* pattern : {"pingpong", "stream", "exchange", "use"})
        cases_.push_back({{"size_bytes", size}, {"pattern", pattern}});
      for (const auto& collective : collectives)
        if (size >= 8 && size <= max_collective_bytes)
          cases_.push_back({{"size_bytes", size}, {"pattern", collective.name}});
    }
    std::size_t max_message_bytes = 0;
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      select_case(i);
      max_message_bytes = std::max(max_message_bytes, bytes_);
    }
    allocate(max_message_bytes);
  }

  void select_case(std::size_t index) override {
    message_bytes_ = static_cast<std::int64_t>(message_bytes_of(index));
    pattern_ = word_parameter(cases_[index], "pattern");
    collective_ = nullptr;
    for (const auto& collective : collectives)
      if (pattern_ == collective.name) collective_ = &collective;
    num_messages_ =
        collective_
            ? 1
            : static_cast<int>(std::clamp<std::int64_t>(approximate_window_bytes / message_bytes_, 1, max_messages));
    bytes_ = static_cast<std::size_t>(message_bytes_ * num_messages_ * (collective_ ? collective_->blocks : 1));
  }

  void prepare_repetition() override { put_into_state("modified", sent_data(), ctx_.cache_line_bytes()); }

  void run_timed(std::span<double> values) override {
    const Ticks start = now();
    if (collective_)
      collective_->call(*this);
    else if (pattern_ == "pingpong")
      run_pingpong();
    else if (pattern_ == "use")
      run_pingpong_with_use();
    else if (pattern_ == "stream")
      run_stream();
    else
      run_exchange();
    values[0] = ctx_.is_sender() ? static_cast<double>(now() - start) / num_messages_ : not_measured_here();
    if (ctx_.is_sender() && has_reply()) values[0] /= 2;
  }

  std::string check_received_data(unsigned seed) override {
    if (pattern_ == "stream" && ctx_.is_sender()) return "";
    if (collective_) return collective_->find_error(*this, seed);
    return PairScenario::check_received_data(seed);
  }

 private:
  // A collective call with `size` bytes per rank, which fills `blocks * size` bytes of the receive buffer.
  struct Collective {
    const char* name;
    std::int64_t blocks;
    void (*call)(TrafficScenario&);
    std::string (*find_error)(TrafficScenario&, unsigned seed);
  };
  static const Collective collectives[4];

  bool has_reply() const { return pattern_ == "pingpong" || pattern_ == "use"; }
  std::span<std::byte> sent_data() const { return send_.first(bytes_); }
  int root_rank() const { return ctx_.is_sender() ? ctx_.rank : ctx_.peer_rank(); }
  std::byte* message_address(const Buffer& buffer, int message) const {
    return buffer.data() + message * message_bytes_;
  }
  int message_count() const { return static_cast<int>(message_bytes_); }

  void run_pingpong() {
    for (int i = 0; i < num_messages_; ++i) {
      if (ctx_.is_sender())
        MPI_Send(message_address(send_, i), message_count(), MPI_BYTE, ctx_.peer_rank(), traffic_tag, ctx_.timed_comm);
      MPI_Recv(message_address(receive_, i), message_count(), MPI_BYTE, ctx_.peer_rank(), traffic_tag, ctx_.timed_comm,
               MPI_STATUS_IGNORE);
      if (!ctx_.is_sender())
        MPI_Send(message_address(send_, i), message_count(), MPI_BYTE, ctx_.peer_rank(), traffic_tag, ctx_.timed_comm);
    }
  }

  // A ping-pong that includes writing and reading the payload, since a fast copy may leave the cache lines where later
  // accesses to them are slower.
  void run_pingpong_with_use() {
    for (int i = 0; i < num_messages_; ++i) {
      if (ctx_.is_sender()) write_and_send(i);
      MPI_Recv(message_address(receive_, i), message_count(), MPI_BYTE, ctx_.peer_rank(), traffic_tag, ctx_.timed_comm,
               MPI_STATUS_IGNORE);
      sum_ += sum_words({message_address(receive_, i), static_cast<std::size_t>(message_bytes_)});
      if (!ctx_.is_sender()) write_and_send(i);
    }
  }

  // Rewrites each word of the payload with the same value, so that the receiver can check the data, and sends the
  // message.
  void write_and_send(int message) {
    auto* bytes = reinterpret_cast<volatile std::uint64_t*>(message_address(send_, message));
    for (std::int64_t i = 0; i < message_bytes_ / 8; ++i) bytes[i] = bytes[i];
    MPI_Send(message_address(send_, message), message_count(), MPI_BYTE, ctx_.peer_rank(), traffic_tag,
             ctx_.timed_comm);
  }

  void post_sends(MPI_Request* requests) {
    for (int i = 0; i < num_messages_; ++i)
      MPI_Isend(message_address(send_, i), message_count(), MPI_BYTE, ctx_.peer_rank(), traffic_tag, ctx_.timed_comm,
                &requests[i]);
  }

  void post_receives(MPI_Request* requests) {
    for (int i = 0; i < num_messages_; ++i)
      MPI_Irecv(message_address(receive_, i), message_count(), MPI_BYTE, ctx_.peer_rank(), traffic_tag, ctx_.timed_comm,
                &requests[i]);
  }

  void run_stream() {
    if (ctx_.is_sender()) {
      post_sends(requests_.data());
      MPI_Waitall(num_messages_, requests_.data(), MPI_STATUSES_IGNORE);
      MPI_Recv(nullptr, 0, MPI_BYTE, ctx_.peer_rank(), ack_tag, ctx_.timed_comm, MPI_STATUS_IGNORE);
    } else {
      post_receives(requests_.data());
      MPI_Waitall(num_messages_, requests_.data(), MPI_STATUSES_IGNORE);
      MPI_Send(nullptr, 0, MPI_BYTE, ctx_.peer_rank(), ack_tag, ctx_.timed_comm);
    }
  }

  void run_exchange() {
    post_receives(requests_.data());
    post_sends(requests_.data() + num_messages_);
    MPI_Waitall(2 * num_messages_, requests_.data(), MPI_STATUSES_IGNORE);
  }

  std::array<MPI_Request, 2 * max_messages> requests_{};
  std::int64_t message_bytes_ = 0;
  std::uint64_t sum_ = 0;
  std::string pattern_;
  const Collective* collective_ = nullptr;
  int num_messages_ = 1;
};

// The root of an eager broadcast returns early, so it waits for an empty reply from its peer.
const TrafficScenario::Collective TrafficScenario::collectives[4] = {
    {"bcast", 1,
     [](TrafficScenario& t) {
       MPI_Bcast(t.message_address(t.ctx_.is_sender() ? t.send_ : t.receive_, 0), t.message_count(), MPI_BYTE,
                 t.root_rank(), t.ctx_.timed_comm);
       if (t.ctx_.is_sender())
         MPI_Recv(nullptr, 0, MPI_BYTE, t.ctx_.peer_rank(), ack_tag, t.ctx_.timed_comm, MPI_STATUS_IGNORE);
       else
         MPI_Send(nullptr, 0, MPI_BYTE, t.ctx_.peer_rank(), ack_tag, t.ctx_.timed_comm);
     },
     [](TrafficScenario& t, unsigned seed) {
       if (t.ctx_.is_sender()) return std::string();
       return find_pattern_error(t.received_data(), seed + static_cast<unsigned>(t.root_rank()));
     }},
    {"allreduce", 1,
     [](TrafficScenario& t) {
       MPI_Allreduce(t.message_address(t.send_, 0), t.message_address(t.receive_, 0), t.message_count() / 8,
                     MPI_UINT64_T, MPI_BXOR, t.ctx_.timed_comm);
     },
     [](TrafficScenario& t, unsigned seed) {  // XOR with the own contribution leaves that of the peer
       auto* result = reinterpret_cast<std::uint64_t*>(t.received_data().data());
       const auto* own_words = reinterpret_cast<const std::uint64_t*>(t.sent_data().data());
       for (std::size_t i = 0; i < t.bytes_ / 8; ++i) result[i] ^= own_words[i];
       return find_pattern_error(t.received_data(), seed + static_cast<unsigned>(t.ctx_.peer_rank()));
     }},
    {"allgather", 2,
     [](TrafficScenario& t) {
       MPI_Allgather(t.message_address(t.send_, 0), t.message_count(), MPI_BYTE, t.message_address(t.receive_, 0),
                     t.message_count(), MPI_BYTE, t.ctx_.timed_comm);
     },
     [](TrafficScenario& t, unsigned seed) {
       const auto received_block =
           t.received_data().subspan(static_cast<std::size_t>(t.ctx_.peer_rank() * t.message_bytes_));
       return find_pattern_error(received_block.first(static_cast<std::size_t>(t.message_bytes_)),
                                 seed + static_cast<unsigned>(t.ctx_.peer_rank()));
     }},
    {"alltoall", 2,
     [](TrafficScenario& t) {
       MPI_Alltoall(t.message_address(t.send_, 0), t.message_count(), MPI_BYTE, t.message_address(t.receive_, 0),
                    t.message_count(), MPI_BYTE, t.ctx_.timed_comm);
     },
     [](TrafficScenario& t, unsigned seed) {  // compares with the block that the peer sent to this rank
       fill_pattern(t.sent_data(), seed + static_cast<unsigned>(t.ctx_.peer_rank()));
       const auto expected_block = t.sent_data().subspan(static_cast<std::size_t>(t.ctx_.rank * t.message_bytes_));
       const auto received_block =
           t.received_data().subspan(static_cast<std::size_t>(t.ctx_.peer_rank() * t.message_bytes_));
       const bool same =
           std::memcmp(expected_block.data(), received_block.data(), static_cast<std::size_t>(t.message_bytes_)) == 0;
       return std::string(same ? "" : "the block that arrived is wrong");
     }},
};

const ScenarioInfo traffic_info{
    "traffic",
    "messages as an application sends them: written just before, in one direction, the other, or both",
    Ranks::pair,
    {{"size_bytes", "message size"},
     {"pattern",
      "pingpong (a message and its answer), stream (a window of messages one way), exchange (both ways), use (a "
      "ping-pong, with the time to write and to read the messages)"}},
    {{"per_message", "ns", Combine::root,
      "time of a message: half a round trip, or the window's time by its messages"}},
};

}  // namespace

extern const Spec traffic_spec;
const Spec traffic_spec{traffic_info, 0.0, make_implementation<Scenario, TrafficScenario>};

}  // namespace nearfield::probe

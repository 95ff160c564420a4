// Paper S0 (papers/S0/README.md), sections IV-C and VI: a message longer than the last-level cache, sent as a whole or
// in pieces. The sender writes the data just before the send, and the receiver reads them just after arrival. With
// pieces, all three steps can run in the caches. Programs that cannot produce their data in this order are not
// represented.
#include <algorithm>

#include "base/sum_words.hpp"
#include "probe/buffer.hpp"
#include "probe/context.hpp"
#include "probe/scenario.hpp"

namespace nearfield::probe {
namespace {

constexpr int cut_tag = 10;

class CutScenario final : public Scenario {
 public:
  explicit CutScenario(Context& ctx) : Scenario(ctx) {
    const std::int64_t llc = ctx.plan.llc_bytes();
    const auto& user_sizes = ctx.plan.sizes;
    for (const auto size : user_sizes.empty() ? std::vector<std::int64_t>{2 * llc} : user_sizes)
      for (const std::int64_t piece : {std::int64_t{0}, std::int64_t{64} << 10, std::int64_t{256} << 10, llc / 8})
        cases_.push_back({{"size_bytes", size / 8 * 8}, {"piece_bytes", piece / 8 * 8}});
    buffer_ = Buffer(max_message_bytes());
  }

  void select_case(std::size_t index) override {
    memory_ = buffer_.first(message_bytes_of(index));
    const auto piece = static_cast<std::size_t>(number_parameter(cases_[index], "piece_bytes"));
    piece_bytes_ = piece == 0 ? memory_.size() : piece;
  }

  void run_timed(std::span<double> values) override {
    const Ticks start = now();
    for (std::size_t at = 0; at < memory_.size(); at += piece_bytes_) {
      const auto piece = memory_.subspan(at, std::min(piece_bytes_, memory_.size() - at));
      if (ctx_.is_sender())
        write_and_send_piece(piece, at);
      else
        receive_and_read_piece(piece);
    }
    values[0] = static_cast<double>(now() - start);
  }

  void fill_buffers(unsigned seed) override {
    first_word_ = seed;
    fill_pattern(memory_, seed + 2);
  }

  std::string check_received_data(unsigned seed) override {
    const auto* words = reinterpret_cast<const std::uint64_t*>(memory_.data());
    for (std::size_t i = 0; i < memory_.size() / 8; ++i)
      if (words[i] != seed + i) return "word " + std::to_string(i) + " is not what was sent";
    return "";
  }

  std::span<std::byte> received_data() override { return memory_; }

 private:
  void write_and_send_piece(std::span<std::byte> piece, std::size_t at) {
    auto* words = reinterpret_cast<std::uint64_t*>(piece.data());
    for (std::size_t i = 0; i < piece.size() / 8; ++i) words[i] = first_word_ + at / 8 + i;
    MPI_Send(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, 1, cut_tag, ctx_.timed_comm);
  }

  void receive_and_read_piece(std::span<std::byte> piece) {
    MPI_Recv(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, 0, cut_tag, ctx_.timed_comm, MPI_STATUS_IGNORE);
    sum_ += sum_words(piece);
  }

  Buffer buffer_;
  std::span<std::byte> memory_;
  std::size_t piece_bytes_ = 1;
  std::uint64_t first_word_ = 0, sum_ = 0;
};

const ScenarioInfo cut_info{
    "cut",
    "A long message that is written just before and read just afterwards, whole or in pieces",
    Ranks::pair,
    {{"size_bytes", "the whole message"}, {"piece_bytes", "a piece; 0: the message is not cut"}},
    {{"time", "ns", Combine::slowest, "from the first write to the last read"}},
};

}  // namespace

extern const Spec cut_spec;
const Spec cut_spec{cut_info, 0.0, make_implementation<Scenario, CutScenario>};

}  // namespace nearfield::probe

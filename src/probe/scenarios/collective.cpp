// Implements scenario/collective.hpp under MPI, on all ranks of the launch, as the baseline for claim S2.4
// (papers/S2/claims.toml).
#include "scenario/collective.hpp"

#include <algorithm>

#include "probe/buffer.hpp"
#include "probe/context.hpp"
#include "probe/scenario.hpp"

namespace nearfield::probe {
namespace {

class CollectiveScenario final : public Scenario {
 public:
  explicit CollectiveScenario(Context& ctx) : Scenario(ctx) {
    for (const auto size : collective_sizes(ctx.size_choice()))
      for (const char* operation : collective_operations)
        cases_.push_back({{"operation", operation}, {"size_bytes", size}, {"ranks", std::int64_t{ctx.num_ranks}}});
    send_ = Buffer(max_message_bytes() * static_cast<std::size_t>(ctx.num_ranks));
    receive_ = Buffer(send_.size());
  }

  void select_case(std::size_t index) override {
    bytes_ = message_bytes_of(index);
    operation_ = static_cast<Operation>(index % std::size(collective_operations));
  }

  void run_timed(std::span<double> values) override {
    const int count = static_cast<int>(bytes_);
    const Ticks start = now();
    switch (operation_) {
      case Operation::bcast:
        MPI_Bcast(ctx_.rank == 0 ? send_.data() : receive_.data(), count, MPI_BYTE, 0, ctx_.timed_comm);
        break;
      case Operation::allreduce:
        MPI_Allreduce(send_.data(), receive_.data(), count / 8, MPI_UINT64_T, MPI_SUM, ctx_.timed_comm);
        break;
      case Operation::allgather:
        MPI_Allgather(send_.data(), count, MPI_BYTE, receive_.data(), count, MPI_BYTE, ctx_.timed_comm);
        break;
      case Operation::alltoall:
        MPI_Alltoall(send_.data(), count, MPI_BYTE, receive_.data(), count, MPI_BYTE, ctx_.timed_comm);
    }
    values[0] = static_cast<double>(now() - start);
  }

  // Block b in the send buffer of rank r contains the pattern of `seed + r` (for alltoall, of `seed + r + 64 b`), which
  // identifies the block.
  void fill_buffers(unsigned seed) override {
    const auto rank = static_cast<unsigned>(ctx_.rank);
    for (unsigned b = 0; b < num_blocks(); ++b)
      fill_pattern(block_of(send_, b), seed + rank + (operation_ == Operation::alltoall ? 64 * b : 0));
    fill_pattern(receive_.first(num_blocks() * bytes_), seed + 4096);
  }

  std::string check_received_data(unsigned seed) override {
    const auto rank = static_cast<unsigned>(ctx_.rank), size = static_cast<unsigned>(ctx_.num_ranks);
    if (operation_ == Operation::bcast) return rank == 0 ? "" : find_pattern_error(block_of(receive_, 0), seed);
    if (operation_ == Operation::allreduce) return find_sum_error(seed);
    for (unsigned b = 0; b < size; ++b) {
      const unsigned block_seed = seed + b + (operation_ == Operation::alltoall ? 64 * rank : 0);
      const std::string error = find_pattern_error(block_of(receive_, b), block_seed);
      if (!error.empty()) return "block of rank " + std::to_string(b) + ": " + error;
    }
    return "";
  }

  std::span<std::byte> received_data() override {
    if (operation_ == Operation::bcast && ctx_.rank == 0) return {};
    return block_of(receive_, 0);
  }

 private:
  enum class Operation { bcast, allreduce, allgather, alltoall };

  std::size_t num_blocks() const {
    return operation_ == Operation::allgather || operation_ == Operation::alltoall
               ? static_cast<std::size_t>(ctx_.num_ranks)
               : 1;
  }
  std::span<std::byte> block_of(const Buffer& buffer, std::size_t b) const {
    return {buffer.data() + b * bytes_, bytes_};
  }

  std::string find_sum_error(unsigned seed) {
    const auto* received_sum = reinterpret_cast<const std::uint64_t*>(receive_.data());
    const auto* term = reinterpret_cast<const std::uint64_t*>(send_.data());
    std::vector<std::uint64_t> sum(bytes_ / 8, 0);
    for (int r = 0; r < ctx_.num_ranks; ++r) {
      fill_pattern(block_of(send_, 0), seed + static_cast<unsigned>(r));
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += term[i];
    }
    return std::equal(sum.begin(), sum.end(), received_sum) ? "" : "the sum is wrong";
  }

  Buffer send_, receive_;
  std::size_t bytes_ = 0;
  Operation operation_ = Operation::bcast;
};

}  // namespace

extern const Spec collective_spec;
const Spec collective_spec{collective_info, 3.0, make_implementation<Scenario, CollectiveScenario>};

}  // namespace nearfield::probe

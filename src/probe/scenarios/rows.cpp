// Paper S1 (papers/S1/README.md), sections III and V: the exchange of boundary rows between two ranks that share a
// matrix. sendrecv: MPI_Sendrecv fills a ghost row. polled: MPI_Isend and MPI_Irecv fill the ghost row, and the rank
// polls both requests by MPI_Testall, so that no call blocks. one-copy: each rank copies the row of its neighbour from
// a shared window into the ghost row. in-place: each rank reads the row of its neighbour in the shared window, without
// a ghost row. In the latter two, a flag signals that a row has been written; successive iterations use separate rows,
// so one flag per direction suffices. The rest of the stencil is not included, since it is the same for all variants.
#include <sched.h>

#include <atomic>
#include <cstring>
#include <memory>

#include "base/clock.hpp"
#include "base/sum_words.hpp"
#include "probe/buffer.hpp"
#include "probe/context.hpp"
#include "probe/scenario.hpp"
#include "probe/scenarios/window.hpp"

namespace nearfield::probe {
namespace {

constexpr int rows_tag = 11;
constexpr std::size_t flag_bytes = 4096;
constexpr const char* exchange_methods[] = {"sendrecv", "polled", "one-copy", "in-place"};

class RowsScenario final : public Scenario {
 public:
  explicit RowsScenario(Context& ctx) : Scenario(ctx) {
    for (const auto size : size_ladder(ctx.size_choice(), 64, 1 << 20))
      for (const char* method : exchange_methods)
        cases_.push_back({{"size_bytes", (size + 7) / 8 * 8}, {"way", method}});
    max_bytes_ = max_message_bytes();
    window_ = std::make_unique<Window>(ctx, flag_bytes + 2 * max_bytes_);
    own_part_ = window_->part_of_rank(ctx.rank);
    peer_part_ = window_->part_of_rank(ctx.peer_rank());
    ghost_ = Buffer(max_bytes_);
  }

  void select_case(std::size_t index) override {
    bytes_ = message_bytes_of(index);
    exchange_method_ = word_parameter(cases_[index], "way");
  }

  void prepare_repetition() override {
    ++iteration_;
    write_row(iteration_);
  }

  // After each exchange the rank reads the neighbour's row; with in-place, only this read transfers the cache lines.
  void run_timed(std::span<double> values) override {
    const Ticks start = now();
    const std::span<const std::byte> row = exchange_rows();
    const Ticks exchanged = now();
    sum_ = sum_words(row);
    values[0] = static_cast<double>(exchanged - start);
    values[1] = static_cast<double>(now() - start);
  }

  void fill_buffers(unsigned seed) override {
    seed_ = seed;
    ++iteration_;
    write_row(iteration_);
    fill_pattern(ghost_.first(bytes_), seed + 5);
  }

  // Returns an error unless the row that was read is the one that the peer wrote in this iteration.
  std::string check_received_data(unsigned seed) override {
    const auto row = exchange_method_ == "in-place" ? row_of(peer_part_, iteration_)
                                                    : std::span<const std::byte>(ghost_.first(bytes_));
    const auto* words = reinterpret_cast<const std::uint64_t*>(row.data());
    for (std::size_t i = 0; i < bytes_ / 8; ++i)
      if (words[i] != word_value(seed, ctx_.peer_rank(), iteration_, i))
        return "word " + std::to_string(i) + " is wrong";
    return sum_ == sum_words(row) ? "" : "something else was read than what is there";
  }

  std::span<std::byte> received_data() override {
    return exchange_method_ == "in-place" ? row_of(peer_part_, iteration_) : ghost_.first(bytes_);
  }

 private:
  static std::uint64_t word_value(unsigned seed, int rank, std::uint64_t iteration, std::size_t i) {
    return seed + 1000003 * static_cast<std::uint64_t>(rank) + 31 * iteration + i;
  }

  std::span<std::byte> row_of(std::span<std::byte> part, std::uint64_t iteration) const {
    return part.subspan(flag_bytes + iteration % 2 * max_bytes_, bytes_);
  }

  void write_row(std::uint64_t iteration) {
    auto* words = reinterpret_cast<std::uint64_t*>(row_of(own_part_, iteration).data());
    for (std::size_t i = 0; i < bytes_ / 8; ++i) words[i] = word_value(seed_, ctx_.rank, iteration, i);
  }

  std::span<const std::byte> exchange_rows() {
    const auto ghost = ghost_.first(bytes_);
    if (exchange_method_ == "sendrecv") {
      const int count = static_cast<int>(bytes_);
      MPI_Sendrecv(row_of(own_part_, iteration_).data(), count, MPI_BYTE, ctx_.peer_rank(), rows_tag, ghost.data(),
                   count, MPI_BYTE, ctx_.peer_rank(), rows_tag, ctx_.timed_comm, MPI_STATUS_IGNORE);
      return ghost;
    }
    if (exchange_method_ == "polled") {
      exchange_by_polling(ghost);
      return ghost;
    }
    synchronize_by_flags();
    const auto row = row_of(peer_part_, iteration_);
    if (exchange_method_ == "in-place") return row;
    std::memcpy(ghost.data(), row.data(), row.size());
    return ghost;
  }

  void exchange_by_polling(std::span<std::byte> ghost) {
    MPI_Request requests[2];
    const int count = static_cast<int>(bytes_), peer = ctx_.peer_rank();
    MPI_Irecv(ghost.data(), count, MPI_BYTE, peer, rows_tag, ctx_.timed_comm, &requests[0]);
    MPI_Isend(row_of(own_part_, iteration_).data(), count, MPI_BYTE, peer, rows_tag, ctx_.timed_comm, &requests[1]);
    for (int done = 0; !done;) {
      MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE);
      if (!done) pause();
    }
  }

  void pause() const { ctx_.plan.is_oversubscribed ? static_cast<void>(sched_yield()) : cpu_pause(); }

  // Returns the flag at the beginning of a window part. It is initially 0, since Window initialises its memory to zero.
  static std::atomic<std::uint64_t>& ready_flag(std::span<std::byte> part) {
    static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(part.data());
  }

  void synchronize_by_flags() {
    ready_flag(own_part_).store(iteration_, std::memory_order_release);
    while (ready_flag(peer_part_).load(std::memory_order_acquire) < iteration_) pause();
  }

  std::unique_ptr<Window> window_;
  std::span<std::byte> own_part_, peer_part_;
  Buffer ghost_;
  std::size_t bytes_ = 0, max_bytes_ = 0;
  std::string exchange_method_;
  std::uint64_t iteration_ = 0, sum_ = 0;
  unsigned seed_ = 0;
};

const ScenarioInfo rows_info{
    "rows",
    "The border rows of two ranks: sent, copied once out of shared memory, or read in place",
    Ranks::pair,
    {{"size_bytes", "a row"}, {"way", "sendrecv, polled, one-copy or in-place"}},
    {{"exchange", "ns", Combine::slowest, "until the neighbour's row may be read"},
     {"exchange_and_read", "ns", Combine::slowest, "until it has been read"}},
};

}  // namespace

extern const Spec rows_spec;
const Spec rows_spec{rows_info, 0.0, make_implementation<Scenario, RowsScenario>};

}  // namespace nearfield::probe

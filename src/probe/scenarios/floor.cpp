// Measures the hardware limits between two cores without MPI: the core-to-core latency, and the times in which one core
// reads or copies lines that the other core has just written. No message can be faster than this latency plus one copy.
#include <sched.h>

#include <atomic>

#include "base/copy.hpp"
#include "base/sum_words.hpp"
#include "probe/buffer.hpp"
#include "probe/cache_state.hpp"
#include "probe/context.hpp"
#include "probe/failure.hpp"
#include "probe/scenario.hpp"
#include "scenario/size_ladder.hpp"

namespace nearfield::probe {
namespace {

// Rank 1 writes the data; rank 0 reads or copies them and measures the time. Flags and data are in one shared window.
// The target of copies is private memory of rank 0; only in `copy-remote-both`, where both ranks copy, it is in the
// window.
class FloorScenario final : public Scenario {
 public:
  explicit FloorScenario(Context& ctx) : Scenario(ctx) {
    if (!ctx.synchronized_start->has_shared_memory())
      throw Unavailable("the two ranks are on different nodes and share no memory");
    add_case(FloorKind::flag, 8);
    for (const auto size : size_ladder(ctx.size_choice(), 64, 4 * ctx.plan.llc_bytes()))
      for (int kind = 1; kind < static_cast<int>(std::size(kind_names)); ++kind)
        add_case(static_cast<FloorKind>(kind), size);
    const std::size_t largest = max_message_bytes();
    void* base = nullptr;
    const auto window_bytes = static_cast<MPI_Aint>(ctx.rank == 0 ? 2 * largest + 4 * page_bytes : 0);
    MPI_Win_allocate_shared(window_bytes, 1, MPI_INFO_NULL, ctx.timed_comm, &base, &window_);
    MPI_Aint bytes = 0;
    int unit = 0;
    MPI_Win_shared_query(window_, 0, &bytes, &unit, &base);
    const auto aligned = (reinterpret_cast<std::uintptr_t>(base) + page_bytes - 1) / page_bytes * page_bytes;
    flags_ = reinterpret_cast<std::atomic<std::uint64_t>*>(aligned);
    shared_data_ = reinterpret_cast<std::byte*>(aligned + page_bytes);
    shared_target_ = shared_data_ + (largest + page_bytes - 1) / page_bytes * page_bytes;
    if (ctx.rank == 1) fill_pattern({shared_data_, largest}, 1);
    if (ctx.rank == 0) {
      flags_[0].store(0);
      flags_[peer_flag_index].store(0);
      flags_[half_done_flag_index].store(0);
      fill_pattern({shared_target_, largest}, 2);
    }
    own_data_ = Buffer(largest);
    target_ = Buffer(largest);
    MPI_Barrier(ctx.timed_comm);
  }

  ~FloorScenario() override {
    if (window_ != MPI_WIN_NULL) MPI_Win_free(&window_);
  }

  void select_case(std::size_t index) override {
    kind_ = kinds_[index];
    bytes_ = message_bytes_of(index);
  }

  void prepare_repetition() override {
    if (ctx_.rank == 0) {
      make_modified(copy_target(), ctx_.cache_line_bytes());
      make_modified(own_data_.first(bytes_), ctx_.cache_line_bytes());
    } else if (reads_remote_data()) {
      make_modified({shared_data_, bytes_}, ctx_.cache_line_bytes());
    }
  }

  void run_timed(std::span<double> values) override {
    values[0] = not_measured_here();
    if (kind_ == FloorKind::flag) return bounce_flag(values);
    if (kind_ == FloorKind::copy_remote_both) return copy_by_both(values);
    if (ctx_.rank != 0) return;
    const std::byte* from = reads_remote_data() ? shared_data_ : own_data_.data();
    const Ticks start = now();
    switch (kind_) {
      case FloorKind::read_remote_data:
      case FloorKind::read_local:
        sum_ = sum_words({from, bytes_});
        break;
      case FloorKind::copy_remote:
      case FloorKind::copy_local:
        copy_plain(target_.data(), from, bytes_);
        break;
      default:
        streaming_copy()(target_.data(), from, bytes_);
    }
    values[0] = static_cast<double>(now() - start);
  }

  void fill_buffers(unsigned seed) override {
    if (ctx_.rank == 1) {
      fill_pattern({shared_data_, bytes_}, seed);
    } else {
      fill_pattern(own_data_.first(bytes_), seed);
      fill_pattern(copy_target(), seed + 1);
      sum_ = 0;
    }
  }

  std::string check_received_data(unsigned seed) override {
    if (ctx_.rank != 0) return "";
    if (kind_ == FloorKind::flag) return flags_[0].load() == flag_count_ ? "" : "flags were lost";
    if (is_copy()) return find_pattern_error(copy_target(), seed);
    fill_pattern(target_.first(bytes_), seed);
    return sum_ == sum_words(target_.first(bytes_)) ? "" : "the sum of what was read is wrong";
  }

  std::span<std::byte> received_data() override {
    if (ctx_.rank != 0) return {};
    if (kind_ == FloorKind::flag) return {reinterpret_cast<std::byte*>(flags_), 8};
    if (is_copy()) return copy_target();
    return {reinterpret_cast<std::byte*>(&sum_), sizeof sum_};
  }

 private:
  enum class FloorKind {
    flag,
    read_remote_data,
    copy_remote,
    copy_remote_nt,
    copy_remote_both,
    read_local,
    copy_local,
    copy_local_nt
  };
  static constexpr const char* kind_names[] = {"flag",           "read-remote",      "copy-remote",
                                               "copy-remote-nt", "copy-remote-both", "read-local",
                                               "copy-local",     "copy-local-nt"};
  static constexpr std::size_t page_bytes = 4096;
  static constexpr std::size_t peer_flag_index = page_bytes / 2 / sizeof(std::uint64_t);
  static constexpr std::size_t half_done_flag_index = page_bytes / 4 / sizeof(std::uint64_t);

  void add_case(FloorKind kind, std::int64_t size) {
    kinds_.push_back(kind);
    cases_.push_back({{"kind", kind_names[static_cast<int>(kind)]}, {"size_bytes", size}});
  }

  bool reads_remote_data() const {
    return kind_ >= FloorKind::read_remote_data && kind_ <= FloorKind::copy_remote_both;
  }
  bool is_copy() const {
    return kind_ != FloorKind::flag && kind_ != FloorKind::read_remote_data && kind_ != FloorKind::read_local;
  }

  std::span<std::byte> copy_target() {
    return kind_ == FloorKind::copy_remote_both ? std::span{shared_target_, bytes_} : target_.first(bytes_);
  }

  // Both ranks copy at the same time: rank 0 copies the first half of the message, and rank 1, which has written the
  // message, the second half. Rank 0 measures the time until both halves are copied.
  void copy_by_both(std::span<double> values) {
    const std::size_t half = bytes_ / 2 / 64 * 64;
    std::atomic<std::uint64_t>& done = flags_[half_done_flag_index];
    ++num_halves_copied_;
    const Ticks start = now();
    if (ctx_.rank == 1) {
      copy_plain(shared_target_ + half, shared_data_ + half, bytes_ - half);
      return done.store(num_halves_copied_, std::memory_order_release);
    }
    copy_plain(shared_target_, shared_data_, half);
    while (done.load(std::memory_order_acquire) != num_halves_copied_)
      if (ctx_.plan.is_oversubscribed) sched_yield();
    values[0] = static_cast<double>(now() - start);
  }

  // Measures the one-way latency: half a round trip through two cache lines, each of which one core writes and the
  // other reads.
  void bounce_flag(std::span<double> values) {
    constexpr int round_trips = 32;
    std::atomic<std::uint64_t>&own_flag = flags_[ctx_.rank == 0 ? 0 : peer_flag_index],
    &peer_rank_flag = flags_[ctx_.rank == 0 ? peer_flag_index : 0];
    const Ticks start = now();
    for (int i = 0; i < round_trips; ++i) {
      ++flag_count_;
      if (ctx_.rank == 0) own_flag.store(flag_count_, std::memory_order_release);
      while (peer_rank_flag.load(std::memory_order_acquire) != flag_count_)
        if (ctx_.plan.is_oversubscribed) sched_yield();
      if (ctx_.rank == 1) own_flag.store(flag_count_, std::memory_order_release);
    }
    if (ctx_.rank == 0) values[0] = static_cast<double>(now() - start) / (2.0 * round_trips);
  }

  std::vector<FloorKind> kinds_;  // by case
  MPI_Win window_ = MPI_WIN_NULL;
  std::atomic<std::uint64_t>* flags_ = nullptr;
  std::byte *shared_data_ = nullptr, *shared_target_ = nullptr;
  Buffer own_data_, target_;
  FloorKind kind_ = FloorKind::flag;
  std::size_t bytes_ = 0;
  std::uint64_t sum_ = 0, flag_count_ = 0, num_halves_copied_ = 0;
};

const ScenarioInfo floor_info{
    "floor",
    "Hardware limits between the two cores: a flag, and reading and copying data that the other core just wrote",
    Ranks::pair,
    {{"kind",
      "flag; read or copy, of remote (just written by the other core) or local memory; -nt: non-temporal; -both: each "
      "core copies half"},
     {"size_bytes", "how much is read or copied"}},
    {{"time", "ns", Combine::root, "one way for the flag, the whole operation otherwise"}},
};

}  // namespace

extern const Spec floor_spec;
const Spec floor_spec{floor_info, 4.0, make_implementation<Scenario, FloorScenario>};

}  // namespace nearfield::probe

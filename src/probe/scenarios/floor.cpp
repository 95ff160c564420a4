// Measures the hardware limits between two cores without MPI: the core-to-core latency, and how fast one core reads or
// copies lines that the other core has just written. No message can be faster than that latency plus one copy.
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

// Rank 1 writes the data; rank 0 reads or copies them and measures. Flags and data lie in one shared window. Copies go
// to private memory of rank 0; only `copy-remote-both`, where both ranks copy, has its target in the window.
class FloorScenario final : public Scenario {
 public:
  explicit FloorScenario(Context& ctx) : Scenario(ctx) {
    if (!ctx.start->has_shared_memory()) throw Unavailable("the two ranks are on different nodes and share no memory");
    add_case(Kind::flag, 8);
    for (const auto size : size_ladder(ctx.size_choice(), 64, 4 * ctx.plan.llc_bytes()))
      for (int kind = 1; kind < static_cast<int>(std::size(names)); ++kind) add_case(static_cast<Kind>(kind), size);
    const std::size_t largest = max_bytes();
    void* base = nullptr;
    const auto wanted = static_cast<MPI_Aint>(ctx.rank == 0 ? 2 * largest + 4 * page : 0);
    MPI_Win_allocate_shared(wanted, 1, MPI_INFO_NULL, ctx.timed, &base, &window_);
    MPI_Aint bytes = 0;
    int unit = 0;
    MPI_Win_shared_query(window_, 0, &bytes, &unit, &base);
    const auto aligned = (reinterpret_cast<std::uintptr_t>(base) + page - 1) / page * page;
    flags_ = reinterpret_cast<std::atomic<std::uint64_t>*>(aligned);
    shared_ = reinterpret_cast<std::byte*>(aligned + page);
    shared_target_ = shared_ + (largest + page - 1) / page * page;
    if (ctx.rank == 1) fill_pattern({shared_, largest}, 1);
    if (ctx.rank == 0) {
      flags_[0].store(0);
      flags_[peer_flag].store(0);
      flags_[half_flag].store(0);
      fill_pattern({shared_target_, largest}, 2);
    }
    own_ = Buffer(largest);
    target_ = Buffer(largest);
    MPI_Barrier(ctx.timed);
  }

  ~FloorScenario() override {
    if (window_ != MPI_WIN_NULL) MPI_Win_free(&window_);
  }

  void select_case(std::size_t index) override {
    kind_ = kinds_[index];
    bytes_ = bytes_of(index);
  }

  void prepare_repetition() override {
    if (ctx_.rank == 0) {
      make_modified(copy_target(), ctx_.line_bytes());
      make_modified(own_.first(bytes_), ctx_.line_bytes());
    } else if (reads_remote_data()) {
      make_modified({shared_, bytes_}, ctx_.line_bytes());
    }
  }

  void run_timed(std::span<double> values) override {
    values[0] = not_measured_here();
    if (kind_ == Kind::flag) return bounce_flag(values);
    if (kind_ == Kind::copy_remote_both) return copy_by_both(values);
    if (ctx_.rank != 0) return;
    const std::byte* from = reads_remote_data() ? shared_ : own_.data();
    const Ticks start = now();
    switch (kind_) {
      case Kind::read_remote:
      case Kind::read_local:
        sum_ = sum_words({from, bytes_});
        break;
      case Kind::copy_remote:
      case Kind::copy_local:
        copy_plain(target_.data(), from, bytes_);
        break;
      default:
        streaming_copy()(target_.data(), from, bytes_);
    }
    values[0] = static_cast<double>(now() - start);
  }

  void fill_buffers(unsigned seed) override {
    if (ctx_.rank == 1) {
      fill_pattern({shared_, bytes_}, seed);
    } else {
      fill_pattern(own_.first(bytes_), seed);
      fill_pattern(copy_target(), seed + 1);
      sum_ = 0;
    }
  }

  std::string check_received_data(unsigned seed) override {
    if (ctx_.rank != 0) return "";
    if (kind_ == Kind::flag) return flags_[0].load() == flag_count_ ? "" : "flags were lost";
    if (is_copy()) return pattern_problem(copy_target(), seed);
    fill_pattern(target_.first(bytes_), seed);
    return sum_ == sum_words(target_.first(bytes_)) ? "" : "the sum of what was read is wrong";
  }

  std::span<std::byte> received_data() override {
    if (ctx_.rank != 0) return {};
    if (kind_ == Kind::flag) return {reinterpret_cast<std::byte*>(flags_), 8};
    if (is_copy()) return copy_target();
    return {reinterpret_cast<std::byte*>(&sum_), sizeof sum_};
  }

 private:
  enum class Kind {
    flag,
    read_remote,
    copy_remote,
    copy_remote_nt,
    copy_remote_both,
    read_local,
    copy_local,
    copy_local_nt
  };
  static constexpr const char* names[] = {"flag",           "read-remote",      "copy-remote",
                                          "copy-remote-nt", "copy-remote-both", "read-local",
                                          "copy-local",     "copy-local-nt"};
  static constexpr std::size_t page = 4096;
  static constexpr std::size_t peer_flag = page / 2 / sizeof(std::uint64_t);
  static constexpr std::size_t half_flag = page / 4 / sizeof(std::uint64_t);

  void add_case(Kind kind, std::int64_t size) {
    kinds_.push_back(kind);
    cases_.push_back({{"kind", names[static_cast<int>(kind)]}, {"size_bytes", size}});
  }

  bool reads_remote_data() const { return kind_ >= Kind::read_remote && kind_ <= Kind::copy_remote_both; }
  bool is_copy() const { return kind_ != Kind::flag && kind_ != Kind::read_remote && kind_ != Kind::read_local; }

  std::span<std::byte> copy_target() {
    return kind_ == Kind::copy_remote_both ? std::span{shared_target_, bytes_} : target_.first(bytes_);
  }

  // Both ranks copy at the same time: rank 0 the first half of the message, rank 1, which wrote it, the second half.
  // Rank 0 measures until both halves are copied.
  void copy_by_both(std::span<double> values) {
    const std::size_t half = bytes_ / 2 / 64 * 64;
    std::atomic<std::uint64_t>& done = flags_[half_flag];
    ++halves_;
    const Ticks start = now();
    if (ctx_.rank == 1) {
      copy_plain(shared_target_ + half, shared_ + half, bytes_ - half);
      return done.store(halves_, std::memory_order_release);
    }
    copy_plain(shared_target_, shared_, half);
    while (done.load(std::memory_order_acquire) != halves_)
      if (ctx_.plan.oversubscribed) sched_yield();
    values[0] = static_cast<double>(now() - start);
  }

  // Measures the one-way latency: half a round trip through two lines, each of which is written by one core and read by
  // the other.
  void bounce_flag(std::span<double> values) {
    constexpr int round_trips = 32;
    std::atomic<std::uint64_t>&mine = flags_[ctx_.rank == 0 ? 0 : peer_flag],
    &theirs = flags_[ctx_.rank == 0 ? peer_flag : 0];
    const Ticks start = now();
    for (int i = 0; i < round_trips; ++i) {
      ++flag_count_;
      if (ctx_.rank == 0) mine.store(flag_count_, std::memory_order_release);
      while (theirs.load(std::memory_order_acquire) != flag_count_)
        if (ctx_.plan.oversubscribed) sched_yield();
      if (ctx_.rank == 1) mine.store(flag_count_, std::memory_order_release);
    }
    if (ctx_.rank == 0) values[0] = static_cast<double>(now() - start) / (2.0 * round_trips);
  }

  std::vector<Kind> kinds_;  // by case
  MPI_Win window_ = MPI_WIN_NULL;
  std::atomic<std::uint64_t>* flags_ = nullptr;
  std::byte *shared_ = nullptr, *shared_target_ = nullptr;
  Buffer own_, target_;
  Kind kind_ = Kind::flag;
  std::size_t bytes_ = 0;
  std::uint64_t sum_ = 0, flag_count_ = 0, halves_ = 0;
};

const ScenarioInfo floor_info{
    "floor",
    "What the hardware allows between the two cores: flag, reading and copying what the other just wrote",
    Ranks::pair,
    {{"kind",
      "flag; read or copy, of remote (just written by the other core) or local memory; -nt: non-temporal; -both: each "
      "core copies half"},
     {"size_bytes", "how much is read or copied"}},
    {{"time", "ns", Combine::root, "one way for the flag, the whole operation otherwise"}},
};

}  // namespace

extern const Spec floor_spec;
const Spec floor_spec{floor_info, 4.0, make_variant<Scenario, FloorScenario>};

}  // namespace nearfield::probe

// scenario/load.hpp by MPI: ranks 0 and 1 are the pair, and ranks from 2 on make the load in their own communicator. It
// needs cores for at least two pairs.
#include "scenario/load.hpp"

#include <algorithm>

#include "probe/buffer.hpp"
#include "probe/context.hpp"
#include "probe/failure.hpp"
#include "probe/scenario.hpp"

namespace nearfield::probe {
namespace {

constexpr int tag_message = 4, tag_running = 5, tag_stop = 6;
constexpr int leader = 2;  // of the background, in the world

class Load final : public Scenario {
 public:
  explicit Load(Context& ctx) : ctx_(ctx) {
    MPI_Comm_split(ctx.world, in_background() ? 1 : 0, ctx.world_rank, &group_);
    MPI_Comm_size(group_, &group_size_);
    for (const auto size : message_sizes())
      for (const auto load : load_sizes()) cases_.push_back({size, load});
    const auto largest = static_cast<std::size_t>(std::max(message_sizes().back(), load_sizes().back()));
    const std::size_t blocks = in_background() ? static_cast<std::size_t>(group_size_) : 1;
    send_ = Buffer(largest * blocks);
    receive_ = Buffer(largest * blocks);
  }

  ~Load() override { MPI_Comm_free(&group_); }

  std::vector<Parameters> cases() override {
    std::vector<Parameters> list;
    for (const auto& c : cases_) list.push_back({{"size_bytes", c.size}, {"load_bytes", c.load}});
    return list;
  }

  void select(std::size_t index) override {
    bytes_ = static_cast<std::size_t>(cases_[index].size);
    load_bytes_ = static_cast<int>(cases_[index].load);
  }

  // Rank 0 starts when the load has done its first exchange, and ends it.
  void begin_visit() override {
    if (ctx_.rank == 0 && load_bytes_ > 0)
      MPI_Recv(nullptr, 0, MPI_BYTE, leader, tag_running, ctx_.world, MPI_STATUS_IGNORE);
    MPI_Barrier(ctx_.timed);
  }

  void end_visit() override {
    MPI_Barrier(ctx_.timed);
    if (ctx_.rank == 0 && load_bytes_ > 0) MPI_Send(nullptr, 0, MPI_BYTE, leader, tag_stop, ctx_.world);
  }

  void background() override {
    if (load_bytes_ == 0) return;
    for (int stop = 0, first = 1; !stop; first = 0) {
      MPI_Alltoall(send_.data(), load_bytes_, MPI_BYTE, receive_.data(), load_bytes_, MPI_BYTE, group_);
      if (ctx_.world_rank == leader) {
        if (first) MPI_Send(nullptr, 0, MPI_BYTE, 0, tag_running, ctx_.world);
        MPI_Iprobe(0, tag_stop, ctx_.world, &stop, MPI_STATUS_IGNORE);
      }
      MPI_Bcast(&stop, 1, MPI_INT, 0, group_);
    }
    if (ctx_.world_rank == leader) MPI_Recv(nullptr, 0, MPI_BYTE, 0, tag_stop, ctx_.world, MPI_STATUS_IGNORE);
  }

  void body(std::span<double> values) override {
    const int count = static_cast<int>(bytes_), peer = ctx_.peer();
    values[0] = not_here();
    const Ticks start = now();
    if (ctx_.sender()) {
      MPI_Send(send_.data(), count, MPI_BYTE, peer, tag_message, ctx_.timed);
      MPI_Recv(receive_.data(), count, MPI_BYTE, peer, tag_message, ctx_.timed, MPI_STATUS_IGNORE);
      values[0] = static_cast<double>(now() - start) / 2;
    } else {
      MPI_Recv(receive_.data(), count, MPI_BYTE, peer, tag_message, ctx_.timed, MPI_STATUS_IGNORE);
      MPI_Send(send_.data(), count, MPI_BYTE, peer, tag_message, ctx_.timed);
    }
  }

  void fill(unsigned seed) override {
    fill_pattern(send_.first(bytes_), seed + static_cast<unsigned>(ctx_.rank));
    fill_pattern(receive_.first(bytes_), seed + 2);
  }

  std::string problem(unsigned seed) override {
    return pattern_problem(receive_.first(bytes_), seed + static_cast<unsigned>(ctx_.peer()));
  }

  std::span<std::byte> arrived() override { return receive_.first(bytes_); }

 private:
  struct Case {
    std::int64_t size, load;
  };

  bool in_background() const { return ctx_.timed == MPI_COMM_NULL; }

  std::vector<std::int64_t> message_sizes() const {
    if (!ctx_.plan.sizes.empty()) return ctx_.plan.sizes;
    if (ctx_.plan.tier == "quick") return {8, 4096, 64 << 10, 1 << 20};
    return {8, 1024, 4096, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20};
  }

  std::vector<std::int64_t> load_sizes() const {
    if (ctx_.plan.tier == "quick") return {0, 1024, 64 << 10, 1 << 20};
    return {0, 1024, 16 << 10, 64 << 10, 256 << 10, 1 << 20};
  }

  Context& ctx_;
  MPI_Comm group_ = MPI_COMM_NULL;
  int group_size_ = 0;
  std::vector<Case> cases_;
  Buffer send_, receive_;
  std::size_t bytes_ = 0;
  int load_bytes_ = 0;
};

}  // namespace

extern const Spec load_spec;
const Spec load_spec{
    load_info,
    4.0,
    [](Context& ctx) -> std::unique_ptr<Scenario> { return std::make_unique<Load>(ctx); },
};

}  // namespace nearfield::probe

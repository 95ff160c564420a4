// Implements scenario/load.hpp under MPI: ranks 0 and 1 are the pair; the other ranks generate the load in a separate
// communicator. Requires at least four cores.
#include "scenario/load.hpp"

#include <algorithm>

#include "probe/scenarios/pair.hpp"

namespace nearfield::probe {
namespace {

constexpr int tag_message = 4, tag_running = 5, tag_stop = 6;
constexpr int background_leader = 2;  // rank in ctx.world of the first background rank, which communicates with rank 0

class LoadScenario final : public PairScenario {
 public:
  explicit LoadScenario(Context& ctx) : PairScenario(ctx) {
    MPI_Comm_split(ctx.world_comm, is_background_rank() ? 1 : 0, ctx.world_rank, &group_comm_);
    MPI_Comm_size(group_comm_, &group_size_);
    const auto loads = background_load_sizes(ctx.size_choice());
    for (const auto size : load_message_sizes(ctx.size_choice()))
      for (const auto load : loads) cases_.push_back({{"size_bytes", size}, {"load_bytes", load}});
    const std::size_t blocks = is_background_rank() ? static_cast<std::size_t>(group_size_) : 1;
    allocate(std::max(max_message_bytes(), static_cast<std::size_t>(loads.back())) * blocks);
  }

  ~LoadScenario() override { MPI_Comm_free(&group_comm_); }

  void select_case(std::size_t index) override {
    bytes_ = message_bytes_of(index);
    load_bytes_ = static_cast<int>(number_parameter(cases_[index], "load_bytes"));
  }

  // Rank 0 waits until the background ranks have completed the first exchange.
  void begin_visit() override {
    if (ctx_.rank == 0 && load_bytes_ > 0)
      MPI_Recv(nullptr, 0, MPI_BYTE, background_leader, tag_running, ctx_.world_comm, MPI_STATUS_IGNORE);
    MPI_Barrier(ctx_.timed_comm);
  }

  void end_visit() override {
    MPI_Barrier(ctx_.timed_comm);
    if (ctx_.rank == 0 && load_bytes_ > 0) MPI_Send(nullptr, 0, MPI_BYTE, background_leader, tag_stop, ctx_.world_comm);
  }

  void run_background_load() override {
    if (load_bytes_ == 0) return;
    for (int stop = 0, first = 1; !stop; first = 0) {
      MPI_Alltoall(send_.data(), load_bytes_, MPI_BYTE, receive_.data(), load_bytes_, MPI_BYTE, group_comm_);
      if (ctx_.world_rank == background_leader) {
        if (first) MPI_Send(nullptr, 0, MPI_BYTE, 0, tag_running, ctx_.world_comm);
        MPI_Iprobe(0, tag_stop, ctx_.world_comm, &stop, MPI_STATUS_IGNORE);
      }
      MPI_Bcast(&stop, 1, MPI_INT, 0, group_comm_);
    }
    if (ctx_.world_rank == background_leader)
      MPI_Recv(nullptr, 0, MPI_BYTE, 0, tag_stop, ctx_.world_comm, MPI_STATUS_IGNORE);
  }

  void run_timed(std::span<double> values) override {
    const int count = static_cast<int>(bytes_), peer = ctx_.peer_rank();
    values[0] = not_measured_here();
    const Ticks start = now();
    if (ctx_.is_sender()) {
      MPI_Send(send_.data(), count, MPI_BYTE, peer, tag_message, ctx_.timed_comm);
      MPI_Recv(receive_.data(), count, MPI_BYTE, peer, tag_message, ctx_.timed_comm, MPI_STATUS_IGNORE);
      values[0] = static_cast<double>(now() - start) / 2;
    } else {
      MPI_Recv(receive_.data(), count, MPI_BYTE, peer, tag_message, ctx_.timed_comm, MPI_STATUS_IGNORE);
      MPI_Send(send_.data(), count, MPI_BYTE, peer, tag_message, ctx_.timed_comm);
    }
  }

 private:
  bool is_background_rank() const { return ctx_.timed_comm == MPI_COMM_NULL; }

  MPI_Comm group_comm_ = MPI_COMM_NULL;
  int group_size_ = 0;
  int load_bytes_ = 0;
};

}  // namespace

extern const Spec load_spec;
const Spec load_spec{load_info, 4.0, make_implementation<Scenario, LoadScenario>};

}  // namespace nearfield::probe

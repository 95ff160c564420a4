#include "probe/protocol.hpp"

#include <sched.h>

#include "probe/buffer.hpp"
#include "probe/single_copy.hpp"

namespace nearfield::probe {
namespace {

constexpr int switch_tag = 7, tag_never_sent = 9;
constexpr std::int64_t max_tested_bytes = 8 << 20;

constexpr int num_tries = 3;

// Delays the receiver by `ns`. With `polls_mpi` it polls MPI_Iprobe for a message that is never sent, so that the MPI
// library makes progress.
void delay_receiver(const Context& ctx, bool polls_mpi, double ns) {
  const Ticks until = now() + static_cast<Ticks>(ns * ctx.ticks_per_ns);
  while (now() < until) {
    int flag = 0;
    if (polls_mpi) MPI_Iprobe(ctx.peer_rank(), tag_never_sent, ctx.timed_comm, &flag, MPI_STATUS_IGNORE);
    ctx.plan.is_oversubscribed ? static_cast<void>(sched_yield()) : cpu_pause();
  }
}

// Returns whether, in most of the tries, MPI_Send on rank 0 took about as long as the receive on rank 1 was delayed.
// The result is the same on both ranks.
bool is_send_delayed(Context& ctx, std::span<std::byte> send, std::span<std::byte> receive, bool receiver_polls_mpi) {
  const double receiver_delay_ns = ctx.plan.is_oversubscribed ? 5e6 : 2e5;
  const int count = static_cast<int>(send.size());
  int num_delayed_sends = 0;
  for (int i = 0; i < num_tries; ++i) {
    const Ticks start = ctx.synchronized_start->wait();
    if (ctx.is_sender()) {
      MPI_Send(send.data(), count, MPI_BYTE, ctx.peer_rank(), switch_tag, ctx.timed_comm);
      num_delayed_sends += static_cast<double>(now() - start) > 0.8 * receiver_delay_ns * ctx.ticks_per_ns;
      MPI_Recv(nullptr, 0, MPI_BYTE, ctx.peer_rank(), switch_tag, ctx.timed_comm, MPI_STATUS_IGNORE);
    } else {
      delay_receiver(ctx, receiver_polls_mpi, receiver_delay_ns);
      MPI_Recv(receive.data(), count, MPI_BYTE, ctx.peer_rank(), switch_tag, ctx.timed_comm, MPI_STATUS_IGNORE);
      MPI_Send(nullptr, 0, MPI_BYTE, ctx.peer_rank(), switch_tag, ctx.timed_comm);
    }
  }
  MPI_Bcast(&num_delayed_sends, 1, MPI_INT, 0, ctx.timed_comm);
  return 2 * num_delayed_sends > num_tries;
}

bool is_same_protocol(const ProtocolBehavior& a, const ProtocolBehavior& b) {
  return a.waits_for_receive == b.waits_for_receive && a.waits_for_progress == b.waits_for_progress &&
         (a.single_copies_per_message > 0) == (b.single_copies_per_message > 0);
}

void append_switches(const ProtocolBehavior& behavior_before, const ProtocolBehavior& behavior_after, std::int64_t size,
                     std::vector<ProtocolSwitch>& switches) {
  if (behavior_before.waits_for_receive != behavior_after.waits_for_receive) switches.push_back({"eager-limit", size});
  if (behavior_before.waits_for_progress != behavior_after.waits_for_progress)
    switches.push_back({"unattended-limit", size});
  if ((behavior_before.single_copies_per_message > 0) != (behavior_after.single_copies_per_message > 0))
    switches.push_back({"single-copy", size});
}

}  // namespace

ProtocolBehavior observe_protocol(Context& ctx, std::span<std::byte> send, std::span<std::byte> receive) {
  const std::uint64_t copies_before = single_copy_calls;
  ProtocolBehavior behavior;
  behavior.waits_for_receive = is_send_delayed(ctx, send, receive, true);
  behavior.waits_for_progress = is_send_delayed(ctx, send, receive, false);
  behavior.single_copies_per_message = static_cast<double>(single_copy_calls - copies_before) / (2 * num_tries);
  MPI_Allreduce(MPI_IN_PLACE, &behavior.single_copies_per_message, 1, MPI_DOUBLE, MPI_SUM, ctx.timed_comm);
  return behavior;
}

std::vector<ProtocolSwitch> find_protocol_switches(Context& ctx, Emitter& emit) {
  Buffer send(max_tested_bytes), receive(max_tested_bytes);
  const auto observe_size = [&](std::int64_t size) {
    const auto bytes = static_cast<std::size_t>(size);
    emit.write_current_step("finding where the MPI changes its protocol: " + std::to_string(size) + " B");
    return observe_protocol(ctx, send.first(bytes), receive.first(bytes));
  };
  std::vector<ProtocolSwitch> switches;
  observe_size(1);  // the first message establishes connections
  ProtocolBehavior behavior_before = observe_size(1);
  for (std::int64_t size = 1; size < max_tested_bytes; size *= 2) {
    const ProtocolBehavior behavior_after = observe_size(2 * size);
    for (std::int64_t low = size; !is_same_protocol(behavior_before, behavior_after);) {
      std::int64_t high = 2 * size;
      while (high - low > 1) {
        const std::int64_t middle = low + (high - low) / 2;
        (is_same_protocol(observe_size(middle), behavior_before) ? low : high) = middle;
      }
      const ProtocolBehavior next = high == 2 * size ? behavior_after : observe_size(high);
      append_switches(behavior_before, next, low, switches);
      behavior_before = next;
      low = high;
    }
  }
  return switches;
}

}  // namespace nearfield::probe

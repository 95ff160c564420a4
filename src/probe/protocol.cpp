#include "probe/protocol.hpp"

#include <sched.h>

#include "probe/buffer.hpp"
#include "probe/single_copy.hpp"

namespace nearfield::probe {
namespace {

constexpr int switch_tag = 7, tag_never_sent = 9;
constexpr std::int64_t largest = 8 << 20;

constexpr int tries = 3;

// Delays the receiver by `ns`. With `inside_mpi` it polls MPI_Iprobe for a message that is never sent, so that the MPI
// library makes progress.
void delay_receiver(const Context& ctx, bool inside_mpi, double ns) {
  const Ticks until = now() + static_cast<Ticks>(ns * ctx.ticks_per_ns);
  while (now() < until) {
    int flag = 0;
    if (inside_mpi) MPI_Iprobe(ctx.peer_rank(), tag_never_sent, ctx.timed, &flag, MPI_STATUS_IGNORE);
    ctx.plan.oversubscribed ? static_cast<void>(sched_yield()) : cpu_pause();
  }
}

// Returns whether, in most of the tries, MPI_Send on rank 0 took about as long as the receive on rank 1 was delayed.
// The result is the same on both ranks.
bool is_send_delayed(Context& ctx, std::span<std::byte> send, std::span<std::byte> receive, bool receiver_inside_mpi) {
  const double late_ns = ctx.plan.oversubscribed ? 5e6 : 2e5;
  const int count = static_cast<int>(send.size());
  int waited = 0;
  for (int i = 0; i < tries; ++i) {
    const Ticks start = ctx.start->wait();
    if (ctx.is_sender()) {
      MPI_Send(send.data(), count, MPI_BYTE, ctx.peer_rank(), switch_tag, ctx.timed);
      waited += static_cast<double>(now() - start) > 0.8 * late_ns * ctx.ticks_per_ns;
      MPI_Recv(nullptr, 0, MPI_BYTE, ctx.peer_rank(), switch_tag, ctx.timed, MPI_STATUS_IGNORE);
    } else {
      delay_receiver(ctx, receiver_inside_mpi, late_ns);
      MPI_Recv(receive.data(), count, MPI_BYTE, ctx.peer_rank(), switch_tag, ctx.timed, MPI_STATUS_IGNORE);
      MPI_Send(nullptr, 0, MPI_BYTE, ctx.peer_rank(), switch_tag, ctx.timed);
    }
  }
  MPI_Bcast(&waited, 1, MPI_INT, 0, ctx.timed);
  return 2 * waited > tries;
}

bool is_same_protocol(const ProtocolBehaviour& a, const ProtocolBehaviour& b) {
  return a.waits_for_receive == b.waits_for_receive && a.waits_for_progress == b.waits_for_progress &&
         (a.single_copies > 0) == (b.single_copies > 0);
}

void append_switches(const ProtocolBehaviour& before, const ProtocolBehaviour& after, std::int64_t size,
                     std::vector<ProtocolSwitch>& found) {
  if (before.waits_for_receive != after.waits_for_receive) found.push_back({"eager-limit", size});
  if (before.waits_for_progress != after.waits_for_progress) found.push_back({"unattended-limit", size});
  if ((before.single_copies > 0) != (after.single_copies > 0)) found.push_back({"single-copy", size});
}

}  // namespace

ProtocolBehaviour observe_protocol(Context& ctx, std::span<std::byte> send, std::span<std::byte> receive) {
  const std::uint64_t copies_before = single_copy_calls;
  ProtocolBehaviour seen;
  seen.waits_for_receive = is_send_delayed(ctx, send, receive, true);
  seen.waits_for_progress = is_send_delayed(ctx, send, receive, false);
  seen.single_copies = static_cast<double>(single_copy_calls - copies_before) / (2 * tries);
  MPI_Allreduce(MPI_IN_PLACE, &seen.single_copies, 1, MPI_DOUBLE, MPI_SUM, ctx.timed);
  return seen;
}

std::vector<ProtocolSwitch> find_protocol_switches(Context& ctx, Emitter& emit) {
  Buffer send(largest), receive(largest);
  const auto observe_size = [&](std::int64_t size) {
    const auto bytes = static_cast<std::size_t>(size);
    emit.write_phase("finding where the MPI changes its protocol: " + std::to_string(size) + " B");
    return observe_protocol(ctx, send.first(bytes), receive.first(bytes));
  };
  std::vector<ProtocolSwitch> found;
  observe_size(1);  // the first message establishes connections
  ProtocolBehaviour before = observe_size(1);
  for (std::int64_t size = 1; size < largest; size *= 2) {
    const ProtocolBehaviour after = observe_size(2 * size);
    for (std::int64_t low = size; !is_same_protocol(before, after);) {
      std::int64_t high = 2 * size;
      while (high - low > 1) {
        const std::int64_t middle = low + (high - low) / 2;
        (is_same_protocol(observe_size(middle), before) ? low : high) = middle;
      }
      const ProtocolBehaviour next = high == 2 * size ? after : observe_size(high);
      append_switches(before, next, low, found);
      before = next;
      low = high;
    }
  }
  return found;
}

}  // namespace nearfield::probe

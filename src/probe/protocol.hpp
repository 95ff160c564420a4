// Determines which protocol the MPI uses for a message size by observing the behaviour of MPI_Send.
#pragma once

#include <span>
#include <vector>

#include "probe/context.hpp"
#include "probe/emit.hpp"

namespace nearfield::probe {

struct ProtocolBehavior {
  bool waits_for_receive = false;          ///< rendezvous: MPI_Send returned only after the receive was posted
  bool waits_for_progress = false;         ///< MPI_Send returned only after the receiver entered any MPI call
  double single_copies_per_message = 0.0;  ///< kernel copies per message, by sender and receiver together
};

/// Sends six messages from rank 0 to rank 1 of ctx.timed_comm, which posts each receive after a delay. During the delay
/// the receiver calls MPI (three messages) or does not (three messages); the majority of each three determines the
/// result. `send` and `receive` are the message buffers. Collective over ctx.timed_comm; returns the same on both
/// ranks.
ProtocolBehavior observe_protocol(Context& ctx, std::span<std::byte> send, std::span<std::byte> receive);

/// Returns the message sizes from 1 B to 8 MiB at which the behaviour changes, ascending and exact to the byte (by
/// bisection). Collective over ctx.timed_comm. Emits a progress line per tested size.
std::vector<ProtocolSwitch> find_protocol_switches(Context& ctx, Emitter& emit);

}  // namespace nearfield::probe

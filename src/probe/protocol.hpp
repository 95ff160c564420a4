// Determines which protocol the MPI uses for a message size, by the behaviour of MPI_Send, not by documentation.
#pragma once

#include <span>
#include <vector>

#include "probe/context.hpp"
#include "probe/emit.hpp"

namespace nearfield::probe {

struct ProtocolBehaviour {
  bool waits_for_receive = false;   ///< rendezvous: Send returned only after the receive was posted
  bool waits_for_progress = false;  ///< Send returned only after the receiver entered MPI, in any call
  double single_copies = 0.0;       ///< kernel copies per message, by sender and receiver together
};

/// Sends six messages from rank 0 to rank 1 of ctx.timed, whose receives are posted late: three while the receiver is
/// inside MPI, three while it is outside. The majority of each three decides. `send` and `receive` have the size of a
/// message. Collective over ctx.timed; returns the same on both ranks.
ProtocolBehaviour observe_protocol(Context& ctx, std::span<std::byte> send, std::span<std::byte> receive);

/// Returns the sizes from 1 B to 8 MiB at which the behaviour changes, ascending; a bisection finds each to the byte.
/// Collective over ctx.timed. Emits a progress line per tested size.
std::vector<ProtocolSwitch> find_protocol_switches(Context& ctx, Emitter& emit);

}  // namespace nearfield::probe

// Determines by its behaviour which protocol the MPI uses for a message size, independently of documentation.
#pragma once

#include <span>
#include <vector>

#include "probe/context.hpp"
#include "probe/emit.hpp"

namespace nearfield::probe {

struct Behaviour {
  bool waits_for_receive = false;   ///< rendezvous: Send returned only after the receive was posted
  bool waits_for_progress = false;  ///< Send returned only after the receiver entered MPI, in any call
  double single_copies = 0.0;       ///< kernel copies per message, of both ends together
};

/// Sends messages from rank 0 to rank 1 of ctx.timed whose receive is posted late: three while the receiver is inside
/// MPI, three while it is not; the majority counts. Collective over ctx.timed; returns the same on both ranks. Buffers
/// hold `size_bytes`.
Behaviour observe(Context& ctx, std::span<std::byte> send, std::span<std::byte> receive);

/// Returns the sizes from 1 B to 8 MiB at which the behaviour changes, exact to the byte, ascending. Collective over
/// ctx.timed. Reports progress at each size.
std::vector<Switch> find_switches(Context& ctx, Emitter& emit);

}  // namespace nearfield::probe

// Finds out by behaviour which protocol carries a message of a given size, whatever the MPI's documentation says.
#pragma once

#include <span>
#include <vector>

#include "probe/context.hpp"
#include "probe/emit.hpp"

namespace nearfield::probe {

struct Behaviour {
  bool waits_for_receive = false;   ///< Send returned only after the receive was posted: rendezvous
  bool waits_for_progress = false;  ///< Send returned only after the receiver entered MPI, for whatever call
  double single_copies = 0.0;       ///< kernel copies per message, both ends together
};

/// Sends messages from rank 0 to rank 1 of ctx.timed, the receive posted late on purpose: three while the receiver
/// is inside MPI meanwhile, three while it is not; the majority counts. Collective over ctx.timed; the same answer on
/// both ranks. Buffers hold `size_bytes`.
Behaviour observe(Context& ctx, std::span<std::byte> send, std::span<std::byte> receive);

/// Returns the sizes of 1 B to 8 MiB at which behaviour changes, to the byte, ascending. Collective over ctx.timed. Says
/// at each size that the launch is alive.
std::vector<Switch> find_switches(Context& ctx, Emitter& emit);

}  // namespace nearfield::probe

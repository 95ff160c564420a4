// Allgather: short blocks by recursive doubling if the number of ranks is a power of two, otherwise by Bruck's
// algorithm; long blocks by a ring.
#include "sim/mpi/collectives/algorithms.hpp"
#include "sim/mpi/collectives/open_mpi.hpp"
#include "sim/mpi/collectives/thresholds.hpp"

namespace nearfield::sim {

Task<> allgather_by_ring(Communicator& all, Blocks blocks, int root) {
  const int ranks = all.size(), me = all.rank(), place = relative_rank(root, me, ranks);
  const int right = (me + 1) % ranks, left = (me - 1 + ranks) % ranks;
  for (int step = 1; step < ranks; ++step) {
    const int mine = (place - step + 1 + ranks) % ranks, theirs = (place - step + ranks) % ranks;
    co_await all.sendrecv(right, blocks.single_block(mine), left, blocks.single_block(theirs));
  }
}

Task<> allgather_by_doubling(Communicator& all, Blocks blocks, int root) {
  const int ranks = all.size(), place = relative_rank(root, all.rank(), ranks);
  for (int have = 1; have < ranks; have *= 2) {
    const int partner = place ^ have;
    const int mine = place & -have, theirs = partner & -have;
    const int other = absolute_rank(root, partner, ranks);
    co_await all.sendrecv(other, blocks.block_range(mine, mine + have), other,
                          blocks.block_range(theirs, theirs + have));
  }
}

// J. Bruck et al., 1997: gathers the blocks in the order of their ranks' distance, and rotates them into place at the
// end.
Task<> allgather_by_bruck(Communicator& all, Call call) {
  const int ranks = all.size(), me = all.rank();
  const Blocks out = equal_blocks(call.out, call.bytes, ranks);
  const TemporaryBuffer temporary(all, out.total_bytes);
  const Blocks turned = equal_blocks(temporary.begin(), call.bytes, ranks);
  co_await all.copy(turned.begin, call.in, call.bytes);
  for (int have = 1; have < ranks; have *= 2) {
    const int more = std::min(have, ranks - have);
    co_await all.sendrecv((me - have + ranks) % ranks, turned.block_range(0, more), (me + have) % ranks,
                          turned.block_range(have, have + more));
  }
  const Buffer upper = out.block_range(me, ranks), lower = out.block_range(0, me);
  co_await all.copy(upper.address, turned.begin, upper.bytes());
  co_await all.copy(lower.address, turned.begin + upper.bytes(), lower.bytes());
}

namespace {

CollectiveBufferSizes buffer_sizes(int, int ranks, const Call& call) {
  return {call.bytes, call.bytes * static_cast<unsigned>(ranks)};
}

Task<> run_allgather(Communicator& all, Call call) {
  const int ranks = all.size();
  const Blocks out = equal_blocks(call.out, call.bytes, ranks);
  if (call.bytes == 0) co_return;
  if (all.algorithms() == CollectiveAlgorithms::openmpi) {
    co_await open_mpi::run_allgather(all, call);
    co_return;
  }
  const bool doubling = is_power_of_two(ranks) && out.total_bytes < thresholds::allgather_long_bytes;
  if (!doubling && out.total_bytes < thresholds::allgather_short_bytes) {
    co_await allgather_by_bruck(all, call);
    co_return;
  }
  co_await all.copy(out.single_block(all.rank()).address, call.in, call.bytes);
  if (doubling)
    co_await allgather_by_doubling(all, out, 0);
  else
    co_await allgather_by_ring(all, out, 0);
}

}  // namespace

extern const CollectiveSpec allgather_collective;
const CollectiveSpec allgather_collective{
    "allgather", "every rank gets every rank's block", "what one rank contributes", false, buffer_sizes, run_allgather};

}  // namespace nearfield::sim

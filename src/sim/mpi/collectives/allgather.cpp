// Allgather: short blocks by recursive doubling if the number of ranks is a power of two, otherwise by Bruck's
// algorithm; long blocks by a ring.
#include "sim/mpi/collectives/algorithms.hpp"
#include "sim/mpi/collectives/open_mpi.hpp"
#include "sim/mpi/collectives/thresholds.hpp"

namespace nearfield::sim {

Task<> allgather_by_ring(Communicator& comm, Blocks blocks, int root) {
  const int ranks = comm.size(), me = comm.rank(), place = relative_rank(root, me, ranks);
  const int right = (me + 1) % ranks, left = (me - 1 + ranks) % ranks;
  for (int step = 1; step < ranks; ++step) {
    const int own_block = (place - step + 1 + ranks) % ranks, neighbor_block = (place - step + ranks) % ranks;
    co_await comm.sendrecv(right, blocks.single_block(own_block), left, blocks.single_block(neighbor_block));
  }
}

Task<> allgather_by_recursive_doubling(Communicator& comm, Blocks blocks, int root) {
  const int ranks = comm.size(), place = relative_rank(root, comm.rank(), ranks);
  for (int num_gathered = 1; num_gathered < ranks; num_gathered *= 2) {
    const int partner = place ^ num_gathered;
    const int own_block = place & -num_gathered, neighbor_block = partner & -num_gathered;
    const int other = absolute_rank(root, partner, ranks);
    co_await comm.sendrecv(other, blocks.block_range(own_block, own_block + num_gathered), other,
                           blocks.block_range(neighbor_block, neighbor_block + num_gathered));
  }
}

// The algorithm of J. Bruck et al., 1997: gathers the blocks in the order of their ranks' distance from this rank, and
// finally rotates them into the order of ranks.
Task<> allgather_by_bruck(Communicator& comm, CollectiveCall call) {
  const int ranks = comm.size(), me = comm.rank();
  const Blocks out = equal_blocks(call.output, call.bytes, ranks);
  const TemporaryBuffer temporary(comm, out.total_bytes);
  const Blocks rotated = equal_blocks(temporary.begin(), call.bytes, ranks);
  co_await comm.copy(rotated.begin, call.input, call.bytes);
  for (int num_gathered = 1; num_gathered < ranks; num_gathered *= 2) {
    const int num_new = std::min(num_gathered, ranks - num_gathered);
    co_await comm.sendrecv((me - num_gathered + ranks) % ranks, rotated.block_range(0, num_new),
                           (me + num_gathered) % ranks, rotated.block_range(num_gathered, num_gathered + num_new));
  }
  const Buffer upper = out.block_range(me, ranks), lower = out.block_range(0, me);
  co_await comm.copy(upper.address, rotated.begin, upper.bytes());
  co_await comm.copy(lower.address, rotated.begin + upper.bytes(), lower.bytes());
}

namespace {

CollectiveBufferSizes buffer_sizes(int, int ranks, const CollectiveCall& call) {
  return {call.bytes, call.bytes * static_cast<unsigned>(ranks)};
}

Task<> run_allgather(Communicator& comm, CollectiveCall call) {
  const int ranks = comm.size();
  const Blocks out = equal_blocks(call.output, call.bytes, ranks);
  if (call.bytes == 0) co_return;
  if (comm.algorithms() == CollectiveAlgorithms::openmpi) {
    co_await open_mpi::run_allgather(comm, call);
    co_return;
  }
  const bool uses_doubling = is_power_of_two(ranks) && out.total_bytes < thresholds::allgather_min_long_bytes;
  if (!uses_doubling && out.total_bytes < thresholds::allgather_min_ring_bytes) {
    co_await allgather_by_bruck(comm, call);
    co_return;
  }
  co_await comm.copy(out.single_block(comm.rank()).address, call.input, call.bytes);
  if (uses_doubling)
    co_await allgather_by_recursive_doubling(comm, out, 0);
  else
    co_await allgather_by_ring(comm, out, 0);
}

}  // namespace

extern const CollectiveSpec allgather_collective;
const CollectiveSpec allgather_collective{
    "allgather", "every rank gets every rank's block", "what one rank contributes", false, buffer_sizes, run_allgather};

}  // namespace nearfield::sim

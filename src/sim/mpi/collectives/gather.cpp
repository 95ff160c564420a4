// Gather: a binomial tree, in which each rank collects the blocks of its subtree.
#include "sim/mpi/collectives/blocks.hpp"

namespace nearfield::sim {
namespace {

// Receives the children's blocks into `blocks`, whose first block is that of this rank.
Task<> receive_from_children(Communicator& comm, CollectiveCall call, Blocks blocks) {
  const int ranks = comm.size(), place = relative_rank(call.root, comm.rank(), ranks);
  for (int distance = 1; distance < distance_to_parent(place, ranks); distance *= 2) {
    const int child = place + distance;
    if (child >= ranks) break;
    const Buffer part = blocks.block_range(distance, subtree_end(child, ranks) - place);
    co_await comm.receive_and_wait(absolute_rank(call.root, child, ranks), part);
  }
}

// Gathers all blocks on the root. Blocks arrive in the order of places in the tree, which is the order of ranks if the
// root is rank 0.
Task<> gather_at_root(Communicator& comm, CollectiveCall call) {
  const int ranks = comm.size();
  const Blocks out = equal_blocks(call.output, call.bytes, ranks);
  co_await comm.copy(out.single_block(call.root).address, call.input, call.bytes);
  if (call.root == 0) {
    co_await receive_from_children(comm, call, out);
    co_return;
  }
  const TemporaryBuffer temporary(comm, out.total_bytes);
  const Blocks rotated = equal_blocks(temporary.begin(), call.bytes, ranks);
  co_await receive_from_children(comm, call, rotated);
  const Buffer upper = rotated.block_range(1, ranks - call.root), lower = rotated.block_range(ranks - call.root, ranks);
  co_await comm.copy(out.begin + out.block_offset(call.root + 1), upper.address, upper.bytes());
  co_await comm.copy(out.begin, lower.address, lower.bytes());
}

CollectiveBufferSizes buffer_sizes(int rank, int ranks, const CollectiveCall& call) {
  return {call.bytes, rank == call.root ? call.bytes * static_cast<unsigned>(ranks) : 0};
}

Task<> run_gather(Communicator& comm, CollectiveCall call) {
  const int ranks = comm.size(), place = relative_rank(call.root, comm.rank(), ranks);
  if (call.bytes == 0) co_return;
  if (place == 0) {
    co_await gather_at_root(comm, call);
    co_return;
  }
  const int parent = absolute_rank(call.root, place - distance_to_parent(place, ranks), ranks);
  const int num_subtree_ranks = subtree_end(place, ranks) - place;
  if (num_subtree_ranks == 1) {
    co_await comm.send_and_wait(parent, Buffer(call.input, call.bytes));
    co_return;
  }
  const TemporaryBuffer temporary(comm, call.bytes * static_cast<unsigned>(num_subtree_ranks));
  const Blocks collected = equal_blocks(temporary.begin(), call.bytes, num_subtree_ranks);
  co_await comm.copy(collected.begin, call.input, call.bytes);
  co_await receive_from_children(comm, call, collected);
  co_await comm.send_and_wait(parent, collected.block_range(0, num_subtree_ranks));
}

}  // namespace

extern const CollectiveSpec gather_collective;
const CollectiveSpec gather_collective{
    "gather", "the root gets every rank's block", "what one rank contributes", true, buffer_sizes, run_gather};

}  // namespace nearfield::sim

// Gather: a binomial tree, in which each rank collects the blocks of its subtree.
#include "sim/mpi/collectives/blocks.hpp"

namespace nearfield::sim {
namespace {

// Receives the children's blocks into `blocks`, whose first block is that of this rank.
Task<> receive_from_children(Communicator& all, Call call, Blocks blocks) {
  const int ranks = all.size(), place = relative_rank(call.root, all.rank(), ranks);
  for (int distance = 1; distance < distance_to_parent(place, ranks); distance *= 2) {
    const int child = place + distance;
    if (child >= ranks) break;
    const Buffer part = blocks.block_range(distance, subtree_end(child, ranks) - place);
    co_await all.receive_now(absolute_rank(call.root, child, ranks), part);
  }
}

// Gathers all blocks on the root. Blocks arrive in the order of places in the tree, which is the order of ranks if the
// root is rank 0.
Task<> gather_at_root(Communicator& all, Call call) {
  const int ranks = all.size();
  const Blocks out = equal_blocks(call.out, call.bytes, ranks);
  co_await all.copy(out.single_block(call.root).address, call.in, call.bytes);
  if (call.root == 0) {
    co_await receive_from_children(all, call, out);
    co_return;
  }
  const TemporaryBuffer temporary(all, out.total_bytes);
  const Blocks turned = equal_blocks(temporary.begin(), call.bytes, ranks);
  co_await receive_from_children(all, call, turned);
  const Buffer upper = turned.block_range(1, ranks - call.root), lower = turned.block_range(ranks - call.root, ranks);
  co_await all.copy(out.begin + out.block_offset(call.root + 1), upper.address, upper.bytes());
  co_await all.copy(out.begin, lower.address, lower.bytes());
}

CollectiveBufferSizes buffer_sizes(int rank, int ranks, const Call& call) {
  return {call.bytes, rank == call.root ? call.bytes * static_cast<unsigned>(ranks) : 0};
}

Task<> run_gather(Communicator& all, Call call) {
  const int ranks = all.size(), place = relative_rank(call.root, all.rank(), ranks);
  if (call.bytes == 0) co_return;
  if (place == 0) {
    co_await gather_at_root(all, call);
    co_return;
  }
  const int parent = absolute_rank(call.root, place - distance_to_parent(place, ranks), ranks);
  const int below = subtree_end(place, ranks) - place;
  if (below == 1) {
    co_await all.send_now(parent, Buffer(call.in, call.bytes));
    co_return;
  }
  const TemporaryBuffer temporary(all, call.bytes * static_cast<unsigned>(below));
  const Blocks collected = equal_blocks(temporary.begin(), call.bytes, below);
  co_await all.copy(collected.begin, call.in, call.bytes);
  co_await receive_from_children(all, call, collected);
  co_await all.send_now(parent, collected.block_range(0, below));
}

}  // namespace

extern const CollectiveSpec gather_collective;
const CollectiveSpec gather_collective{
    "gather", "the root gets every rank's block", "what one rank contributes", true, buffer_sizes, run_gather};

}  // namespace nearfield::sim

// Scatter: a binomial tree, in which each rank forwards the blocks of its subtree.
#include "sim/mpi/collectives/blocks.hpp"

namespace nearfield::sim {
namespace {

// The blocks of a subtree, in the order of places.
struct SubtreeBlocks {
  Address begin;
  int first;  // place of the first block
};

Task<> send_to_children(Communicator& comm, CollectiveCall call, SubtreeBlocks subtree) {
  const int ranks = comm.size(), place = relative_rank(call.root, comm.rank(), ranks);
  for (int distance = distance_to_parent(place, ranks) / 2; distance > 0; distance /= 2) {
    const int child = place + distance;
    if (child >= ranks) continue;
    const Blocks blocks = equal_blocks(subtree.begin, call.bytes, ranks);
    const Buffer part = blocks.block_range(child - subtree.first, subtree_end(child, ranks) - subtree.first);
    co_await comm.send_and_wait(absolute_rank(call.root, child, ranks), part);
  }
}

// Scatters all blocks from the root. Blocks are sent in the order of places in the tree, which is the order of ranks if
// the root is rank 0.
Task<> scatter_from_root(Communicator& comm, CollectiveCall call) {
  const int ranks = comm.size();
  const Blocks in = equal_blocks(call.input, call.bytes, ranks);
  if (call.root == 0) {
    co_await send_to_children(comm, call, {call.input, 0});
  } else {
    const TemporaryBuffer rotated(comm, in.total_bytes);
    const Buffer upper = in.block_range(call.root, ranks), lower = in.block_range(0, call.root);
    co_await comm.copy(rotated.begin(), upper.address, upper.bytes());
    co_await comm.copy(rotated.begin() + upper.bytes(), lower.address, lower.bytes());
    co_await send_to_children(comm, call, {rotated.begin(), 0});
  }
  co_await comm.copy(call.output, in.single_block(call.root).address, call.bytes);
}

CollectiveBufferSizes buffer_sizes(int rank, int ranks, const CollectiveCall& call) {
  return {rank == call.root ? call.bytes * static_cast<unsigned>(ranks) : 0, call.bytes};
}

Task<> run_scatter(Communicator& comm, CollectiveCall call) {
  const int ranks = comm.size(), place = relative_rank(call.root, comm.rank(), ranks);
  if (call.bytes == 0) co_return;
  if (place == 0) {
    co_await scatter_from_root(comm, call);
    co_return;
  }
  const int parent = absolute_rank(call.root, place - distance_to_parent(place, ranks), ranks);
  const int num_subtree_ranks = subtree_end(place, ranks) - place;
  if (num_subtree_ranks == 1) {
    co_await comm.receive_and_wait(parent, Buffer(call.output, call.bytes));
    co_return;
  }
  const std::uint64_t bytes = call.bytes * static_cast<unsigned>(num_subtree_ranks);
  const TemporaryBuffer subtree(comm, bytes);
  co_await comm.receive_and_wait(parent, Buffer(subtree.begin(), bytes));
  co_await send_to_children(comm, call, {subtree.begin(), place});
  co_await comm.copy(call.output, subtree.begin(), call.bytes);
}

}  // namespace

extern const CollectiveSpec scatter_collective;
const CollectiveSpec scatter_collective{
    "scatter", "every rank gets its block of what the root has", "what one rank gets", true, buffer_sizes, run_scatter};

}  // namespace nearfield::sim

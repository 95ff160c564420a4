// Scatter: a binomial tree, in which each rank forwards the blocks of its subtree.
#include "sim/mpi/collectives/blocks.hpp"

namespace nearfield::sim {
namespace {

// The blocks of a subtree, in the order of places.
struct SubtreeBlocks {
  Address begin;
  int first;  // place of the first block
};

Task<> send_to_children(Communicator& all, Call call, SubtreeBlocks carried) {
  const int ranks = all.size(), place = relative_rank(call.root, all.rank(), ranks);
  for (int distance = distance_to_parent(place, ranks) / 2; distance > 0; distance /= 2) {
    const int child = place + distance;
    if (child >= ranks) continue;
    const Blocks blocks = equal_blocks(carried.begin, call.bytes, ranks);
    const Buffer part = blocks.block_range(child - carried.first, subtree_end(child, ranks) - carried.first);
    co_await all.send_now(absolute_rank(call.root, child, ranks), part);
  }
}

// Scatters all blocks from the root. Blocks are sent in the order of places in the tree, which is the order of ranks if
// the root is rank 0.
Task<> scatter_from_root(Communicator& all, Call call) {
  const int ranks = all.size();
  const Blocks in = equal_blocks(call.in, call.bytes, ranks);
  if (call.root == 0) {
    co_await send_to_children(all, call, {call.in, 0});
  } else {
    const TemporaryBuffer turned(all, in.total_bytes);
    const Buffer upper = in.block_range(call.root, ranks), lower = in.block_range(0, call.root);
    co_await all.copy(turned.begin(), upper.address, upper.bytes());
    co_await all.copy(turned.begin() + upper.bytes(), lower.address, lower.bytes());
    co_await send_to_children(all, call, {turned.begin(), 0});
  }
  co_await all.copy(call.out, in.single_block(call.root).address, call.bytes);
}

CollectiveBufferSizes buffer_sizes(int rank, int ranks, const Call& call) {
  return {rank == call.root ? call.bytes * static_cast<unsigned>(ranks) : 0, call.bytes};
}

Task<> run_scatter(Communicator& all, Call call) {
  const int ranks = all.size(), place = relative_rank(call.root, all.rank(), ranks);
  if (call.bytes == 0) co_return;
  if (place == 0) {
    co_await scatter_from_root(all, call);
    co_return;
  }
  const int parent = absolute_rank(call.root, place - distance_to_parent(place, ranks), ranks);
  const int below = subtree_end(place, ranks) - place;
  if (below == 1) {
    co_await all.receive_now(parent, Buffer(call.out, call.bytes));
    co_return;
  }
  const std::uint64_t bytes = call.bytes * static_cast<unsigned>(below);
  const TemporaryBuffer carried(all, bytes);
  co_await all.receive_now(parent, Buffer(carried.begin(), bytes));
  co_await send_to_children(all, call, {carried.begin(), place});
  co_await all.copy(call.out, carried.begin(), call.bytes);
}

}  // namespace

extern const CollectiveSpec scatter_collective;
const CollectiveSpec scatter_collective{
    "scatter", "every rank gets its block of what the root has", "what one rank gets", true, buffer_sizes, run_scatter};

}  // namespace nearfield::sim

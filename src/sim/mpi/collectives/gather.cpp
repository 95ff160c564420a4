// Gather: a binomial tree, in which each rank collects the blocks of its subtree.
#include "sim/mpi/collectives/blocks.hpp"

namespace nearfield::sim {
namespace {

// Receives the children's blocks into `blocks`, whose first one is that of the rank's own place.
Task<> from_children(Communicator& all, Call call, Blocks blocks) {
  const int ranks = all.size(), place = relative_to(call.root, all.rank(), ranks);
  for (int distance = 1; distance < to_parent(place, ranks); distance *= 2) {
    const int child = place + distance;
    if (child >= ranks) break;
    const Buffer part = blocks.range(distance, subtree_end(child, ranks) - place);
    co_await all.receive_now(absolute(call.root, child, ranks), part);
  }
}

// Blocks arrive in the order of places, which is that of ranks if the root is rank 0.
Task<> to_root(Communicator& all, Call call) {
  const int ranks = all.size();
  const Blocks out = equal_blocks(call.out, call.bytes, ranks);
  co_await all.copy(out.one(call.root).address, call.in, call.bytes);
  if (call.root == 0) {
    co_await from_children(all, call, out);
    co_return;
  }
  const Temporary temporary(all, out.total_bytes);
  const Blocks turned = equal_blocks(temporary.begin(), call.bytes, ranks);
  co_await from_children(all, call, turned);
  const Buffer upper = turned.range(1, ranks - call.root), lower = turned.range(ranks - call.root, ranks);
  co_await all.copy(out.begin + out.offset(call.root + 1), upper.address, upper.bytes());
  co_await all.copy(out.begin, lower.address, lower.bytes());
}

CallSizes sizes(int rank, int ranks, const Call& call) {
  return {call.bytes, rank == call.root ? call.bytes * static_cast<unsigned>(ranks) : 0};
}

Task<> run(Communicator& all, Call call) {
  const int ranks = all.size(), place = relative_to(call.root, all.rank(), ranks);
  if (call.bytes == 0) co_return;
  if (place == 0) {
    co_await to_root(all, call);
    co_return;
  }
  const int parent = absolute(call.root, place - to_parent(place, ranks), ranks);
  const int below = subtree_end(place, ranks) - place;
  if (below == 1) {
    co_await all.send_now(parent, Buffer(call.in, call.bytes));
    co_return;
  }
  const Temporary temporary(all, call.bytes * static_cast<unsigned>(below));
  const Blocks collected = equal_blocks(temporary.begin(), call.bytes, below);
  co_await all.copy(collected.begin, call.in, call.bytes);
  co_await from_children(all, call, collected);
  co_await all.send_now(parent, collected.range(0, below));
}

}  // namespace

extern const CollectiveSpec gather_collective;
const CollectiveSpec gather_collective{
    "gather", "the root gets every rank's block", "what one rank contributes", true, sizes, run};

}  // namespace nearfield::sim
